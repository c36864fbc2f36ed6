package dev.bucksaw;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Collection;
import java.util.Date;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Encodes records as lines of NDJSON into a buffer that it keeps.
 *
 * <p>It writes JSON itself rather than through a generator of a library: a value whose conversion
 * fails halfway is taken back and replaced, a message is cut at an exact number of bytes, and
 * surrogates without their other half become U+FFFD. One thread at a time may use an encoder.
 */
final class Encoder {
  /** Largest number of bytes of a line, with its line end. */
  static final int LINE_BYTES_MAX = 1 << 20;

  /** Largest number of attributes at the top level. */
  static final int ATTRIBUTES_MAX = 250;

  /** Largest number of bytes of a name in UTF-8. */
  static final int NAME_BYTES_MAX = 255;

  /** Deepest nesting of values; it ends structures that contain themselves. */
  static final int DEPTH_MAX = 16;

  /** Largest number of characters of the reason of a failed conversion. */
  private static final int REASON_CHARS_MAX = 1000;

  /** A buffer that grew beyond this is not kept. */
  static final int KEPT_BYTES_MAX = 64 << 10;

  private static final int BLOCK_CHARS = 256;
  private static final char[] HEX = "0123456789abcdef".toCharArray();
  private static final byte[] START = ascii("{\"time\":\"");
  private static final byte[] MESSAGE = ascii("\",\"message\":\"");
  private static final byte[] LEVEL = ascii(",\"level\":\"");
  private static final byte[] DROPPED = ascii(",\"bucksaw.dropped_attributes\":");
  private static final byte[] TRUNCATED = ascii(",\"bucksaw.truncated_bytes\":");
  private static final byte[] NULL = ascii("null");
  private static final byte[] TRUE = ascii("true");
  private static final byte[] FALSE = ascii("false");

  /** The times that RFC 3339 can write, in seconds since 1970. */
  private static final long SECONDS_MIN = -62135596800L;

  private static final long SECONDS_MAX = 253402300799L;

  private final NestedObjects objects = new NestedObjects();
  private byte[] bytes = new byte[1024];
  private int length;
  // End of what the attributes may fill.
  private int limit;

  /** Signals that the attributes alone are too long. */
  private static final class TooLarge extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private static final TooLarge SIGNAL = new TooLarge();

    private TooLarge() {
      super("attributes of more than 1 MiB", null, false, false);
    }
  }

  byte[] bytes() {
    return bytes;
  }

  int length() {
    return length;
  }

  /**
   * Encodes a record. The line is then the first {@link #length()} bytes of {@link #bytes()}.
   *
   * @return false if the attributes alone are too long
   */
  boolean encode(LogRecord record) {
    length = 0;
    limit = Integer.MAX_VALUE;
    raw(START);
    Instant time = record.time();
    time(time == null ? Instant.now() : time);
    raw(MESSAGE);
    int messageStart = length;
    String message = record.message();
    boolean whole = text(message, LINE_BYTES_MAX);
    int messageEnd = length;
    limit = messageEnd + LINE_BYTES_MAX;
    try {
      one('"');
      Level level = record.level();
      if (level != null) {
        raw(LEVEL);
        text(level.text());
        one('"');
      }
      attributes(record.attributes(), level != null);
    } catch (TooLarge e) {
      return false;
    }
    one('}');
    one('\n');
    return whole && length <= LINE_BYTES_MAX || shorten(message, messageStart, messageEnd);
  }

  /** Cuts the message so that the line has at most {@link #LINE_BYTES_MAX} bytes. */
  private boolean shorten(String message, int messageStart, int messageEnd) {
    long messageBytes = utf8Length(message);
    int reserved = TRUNCATED.length + Long.toString(messageBytes).length();
    int others = length - (messageEnd - messageStart);
    int available = LINE_BYTES_MAX - others - reserved;
    if (available < 0) {
      return false;
    }
    int kept = 0;
    int keptUtf8 = 0;
    for (int i = 0; i < message.length(); ) {
      int character = message.codePointAt(i);
      int encoded = encodedLength(character);
      if (kept + encoded > available) {
        break;
      }
      kept += encoded;
      keptUtf8 += utf8Length(character);
      i += Character.charCount(character);
    }
    int cutTo = messageStart + kept;
    System.arraycopy(bytes, messageEnd, bytes, cutTo, length - messageEnd);
    length -= messageEnd - cutTo;
    length -= 2;
    raw(TRUNCATED);
    ascii(Long.toString(messageBytes - keptUtf8), Integer.MAX_VALUE);
    one('}');
    one('\n');
    return true;
  }

  private void attributes(Map<String, ?> attributes, boolean hasLevel) {
    int count = 0;
    int dropped = 0;
    int mark = length;
    objects.clear();
    try {
      for (Map.Entry<?, ?> entry : attributes.entrySet()) {
        String name = name(entry.getKey(), hasLevel);
        if (count == ATTRIBUTES_MAX || nameBytes(name) > NAME_BYTES_MAX) {
          dropped++;
          continue;
        }
        count++;
        one(',');
        string(name);
        one(':');
        int start = length;
        value(entry.getValue(), 1);
        if (bytes[start] == '{') {
          object(start, (int) nameBytes(name));
        }
        mark = length;
      }
    } catch (TooLarge e) {
      throw e;
    } catch (Throwable e) {
      // The map itself failed. The attributes that it gave before are kept.
      length = mark;
      one(',');
      string("bucksaw.attributes");
      one(':');
      failure(e);
    }
    limitObjects(count);
    if (dropped > 0) {
      raw(DROPPED);
      ascii(Integer.toString(dropped), limit);
    }
  }

  /** Notes an object, or makes text of it if the node would refuse one of its names. */
  private void object(int start, int nameBytes) {
    int leaves = NestedObjects.leaves(bytes, start, nameBytes);
    if (leaves > 0) {
      objects.add(start, length, leaves);
      return;
    }
    String text = new String(bytes, start, length - start, StandardCharsets.UTF_8);
    length = start;
    string(text);
  }

  /** Makes text of the objects with most members, until the node accepts the record. */
  private void limitObjects(int count) {
    for (NestedObjects.Span object : objects.chosen(count, ATTRIBUTES_MAX)) {
      int end = object.end();
      String text = new String(bytes, object.start(), end - object.start(), StandardCharsets.UTF_8);
      byte[] behind = java.util.Arrays.copyOfRange(bytes, end, length);
      length = object.start();
      string(text);
      raw(behind);
    }
  }

  private static String name(Object key, boolean hasLevel) {
    String name = key == null ? "" : key.toString();
    return switch (name) {
      case "" -> "_";
      case "time" -> "time_";
      case "message" -> "message_";
      case "level" -> hasLevel ? "level_" : name;
      default -> name;
    };
  }

  /** Writes a value. If its conversion fails, what it wrote is replaced by the reason. */
  private void value(Object value, int depth) {
    int mark = length;
    try {
      convert(value, depth);
    } catch (TooLarge e) {
      throw e;
    } catch (Throwable e) {
      // Errors too: a method `toString` that calls itself ends with a StackOverflowError.
      length = mark;
      failure(e);
    }
  }

  private void convert(Object value, int depth) {
    if (value == null) {
      raw(NULL);
    } else if (value instanceof CharSequence text) {
      string(text.toString());
    } else if (value instanceof Integer
        || value instanceof Long
        || value instanceof Short
        || value instanceof Byte
        || value instanceof AtomicInteger
        || value instanceof AtomicLong) {
      ascii(Long.toString(((Number) value).longValue()), limit);
    } else if (value instanceof Boolean truth) {
      raw(truth ? TRUE : FALSE);
    } else if (value instanceof Double || value instanceof Float) {
      floating((Number) value);
    } else if (value instanceof LogRecord.Lazy lazy) {
      String text = lazy.text();
      if (text == null) {
        raw(NULL);
      } else {
        string(text);
      }
    } else if (depth > DEPTH_MAX) {
      throw new IllegalArgumentException("nested more than " + DEPTH_MAX + " levels deep");
    } else if (value instanceof Map<?, ?> map) {
      map(map, depth);
    } else if (value instanceof Collection<?> collection) {
      collection(collection, depth);
    } else if (value.getClass().isArray()) {
      array(value, depth);
    } else {
      rare(value, depth);
    }
  }

  private void rare(Object value, int depth) {
    // Other classes than those of the JDK may have any text.
    if (value.getClass() == BigInteger.class || value.getClass() == BigDecimal.class) {
      ascii(value.toString(), limit);
    } else if (value instanceof AtomicBoolean truth) {
      raw(truth.get() ? TRUE : FALSE);
    } else if (value instanceof Optional<?> optional) {
      convert(optional.orElse(null), depth + 1);
    } else if (value.getClass() == Date.class) {
      string(((Date) value).toInstant().toString());
    } else {
      string(String.valueOf(value.toString()));
    }
  }

  private void floating(Number value) {
    String text = value.toString();
    if (Double.isFinite(value.doubleValue())) {
      ascii(text, limit);
    } else {
      string(text);
    }
  }

  private void map(Map<?, ?> map, int depth) {
    one('{');
    boolean first = true;
    for (Map.Entry<?, ?> entry : map.entrySet()) {
      if (!first) {
        one(',');
      }
      first = false;
      string(String.valueOf(entry.getKey()));
      one(':');
      value(entry.getValue(), depth + 1);
    }
    one('}');
  }

  private void collection(Collection<?> collection, int depth) {
    one('[');
    boolean first = true;
    for (Object element : collection) {
      if (!first) {
        one(',');
      }
      first = false;
      value(element, depth + 1);
    }
    one(']');
  }

  private void array(Object array, int depth) {
    if (array instanceof byte[] data) {
      // This constructor replaces what is not UTF-8 by U+FFFD.
      string(new String(data, StandardCharsets.UTF_8));
      return;
    }
    one('[');
    int size = java.lang.reflect.Array.getLength(array);
    for (int i = 0; i < size; i++) {
      if (i > 0) {
        one(',');
      }
      value(java.lang.reflect.Array.get(array, i), depth + 1);
    }
    one(']');
  }

  private void failure(Throwable failure) {
    String reason;
    try {
      reason = String.valueOf(failure.toString());
    } catch (Throwable e) {
      reason = failure.getClass().getName();
    }
    if (reason.length() > REASON_CHARS_MAX) {
      reason = reason.substring(0, REASON_CHARS_MAX);
    }
    string("!ERROR: " + reason);
  }

  private void string(String text) {
    one('"');
    text(text);
    one('"');
  }

  private void text(String text) {
    text(text, Integer.MAX_VALUE);
  }

  /**
   * Writes the characters of a text, escaped.
   *
   * @param budget number of bytes after which it stops
   * @return whether the whole text was written
   */
  private boolean text(String text, int budget) {
    int start = length;
    int size = text.length();
    int i = 0;
    while (i < size) {
      if (length - start >= budget) {
        return false;
      }
      int end = Math.min(size, i + BLOCK_CHARS);
      // A character has at most 6 bytes: \u001f. The last one of a block may be half of a pair.
      room(6 * (end - i + 1));
      while (i < end) {
        char c = text.charAt(i);
        if (c < 0x80) {
          if (c >= 0x20 && c != '"' && c != '\\') {
            bytes[length++] = (byte) c;
          } else {
            escape(c);
          }
          i++;
        } else {
          int character = text.codePointAt(i);
          utf8(character);
          i += Character.charCount(character);
        }
      }
      if (length > limit) {
        throw TooLarge.SIGNAL;
      }
    }
    return true;
  }

  private void escape(char c) {
    bytes[length++] = '\\';
    switch (c) {
      case '"', '\\' -> bytes[length++] = (byte) c;
      case '\n' -> bytes[length++] = 'n';
      case '\r' -> bytes[length++] = 'r';
      case '\t' -> bytes[length++] = 't';
      default -> {
        bytes[length++] = 'u';
        bytes[length++] = '0';
        bytes[length++] = '0';
        bytes[length++] = (byte) HEX[c >> 4];
        bytes[length++] = (byte) HEX[c & 15];
      }
    }
  }

  private void utf8(int character) {
    if (character >= 0x10000) {
      bytes[length++] = (byte) (0xf0 | character >> 18);
      bytes[length++] = (byte) (0x80 | character >> 12 & 0x3f);
      bytes[length++] = (byte) (0x80 | character >> 6 & 0x3f);
      bytes[length++] = (byte) (0x80 | character & 0x3f);
    } else if (character >= 0x800) {
      int c = character >= 0xd800 && character <= 0xdfff ? 0xfffd : character;
      bytes[length++] = (byte) (0xe0 | c >> 12);
      bytes[length++] = (byte) (0x80 | c >> 6 & 0x3f);
      bytes[length++] = (byte) (0x80 | c & 0x3f);
    } else {
      bytes[length++] = (byte) (0xc0 | character >> 6);
      bytes[length++] = (byte) (0x80 | character & 0x3f);
    }
  }

  private static int encodedLength(int character) {
    if (character >= 0x80) {
      return utf8Length(character);
    }
    return switch (character) {
      case '"', '\\', '\n', '\r', '\t' -> 2;
      default -> character < 0x20 ? 6 : 1;
    };
  }

  private static int utf8Length(int character) {
    return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  }

  /** The number of bytes of a name at the node, which puts U+FFFD in place of NUL. */
  private static long nameBytes(String name) {
    return utf8Length(name.indexOf('\0') < 0 ? name : name.replace('\0', '\ufffd'));
  }

  /** The number of bytes of a text in UTF-8. */
  static long utf8Length(String text) {
    long bytes = 0;
    for (int i = 0; i < text.length(); ) {
      int character = text.codePointAt(i);
      bytes += utf8Length(character);
      i += Character.charCount(character);
    }
    return bytes;
  }

  /** Writes {@code 2026-11-26T02:00:00.123456000Z}. */
  private void time(Instant time) {
    long seconds = Math.max(SECONDS_MIN, Math.min(SECONDS_MAX, time.getEpochSecond()));
    long days = Math.floorDiv(seconds, 86_400L);
    int second = (int) Math.floorMod(seconds, 86_400L);
    // The date of a day since 1970, with years that begin in March, so that a leap day is the last
    // one: H. Hinnant, "chrono-compatible low-level date algorithms".
    long shifted = days + 719_468;
    long era = Math.floorDiv(shifted, 146_097L);
    int dayOfEra = (int) (shifted - era * 146_097);
    int yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365;
    int dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100);
    int shiftedMonth = (5 * dayOfYear + 2) / 153;
    int day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1;
    int month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
    int year = (int) (yearOfEra + era * 400) + (month <= 2 ? 1 : 0);
    room(32);
    digits(year, 4);
    bytes[length++] = '-';
    digits(month, 2);
    bytes[length++] = '-';
    digits(day, 2);
    bytes[length++] = 'T';
    digits(second / 3600, 2);
    bytes[length++] = ':';
    digits(second / 60 % 60, 2);
    bytes[length++] = ':';
    digits(second % 60, 2);
    bytes[length++] = '.';
    digits(time.getNano(), 9);
    bytes[length++] = 'Z';
  }

  private void digits(int number, int count) {
    int rest = number;
    for (int i = count - 1; i >= 0; i--) {
      bytes[length + i] = (byte) ('0' + rest % 10);
      rest /= 10;
    }
    length += count;
  }

  private void ascii(String text, int end) {
    int size = text.length();
    room(size);
    for (int i = 0; i < size; i++) {
      bytes[length++] = (byte) text.charAt(i);
    }
    if (length > end) {
      throw TooLarge.SIGNAL;
    }
  }

  private void raw(byte[] data) {
    room(data.length);
    System.arraycopy(data, 0, bytes, length, data.length);
    length += data.length;
    if (length > limit) {
      throw TooLarge.SIGNAL;
    }
  }

  private void one(char c) {
    room(1);
    bytes[length++] = (byte) c;
    if (length > limit) {
      throw TooLarge.SIGNAL;
    }
  }

  private void room(int more) {
    int needed = length + more;
    if (needed > bytes.length) {
      bytes = java.util.Arrays.copyOf(bytes, Math.max(needed, bytes.length * 2));
    }
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }
}
