package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.AbstractList;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** Values and failures beyond the vectors. */
class EncoderTest {
  private final Encoder encoder = new Encoder();

  private Map<String, Object> encode(LogRecord record) throws IOException {
    assertTrue(encoder.encode(record));
    return Tree.map(
        Tree.parse(new String(encoder.bytes(), 0, encoder.length(), StandardCharsets.UTF_8)));
  }

  private Object value(Object value) throws IOException {
    return encode(LogRecord.of(Level.INFO, "m").with("v", value)).get("v");
  }

  @Test
  void valuesOfTheLibrary() throws IOException {
    assertEquals("c", value('c'));
    assertEquals(7L, value((short) 7));
    assertEquals(7L, value((byte) 7));
    assertEquals(7L, value(new AtomicLong(7)));
    assertEquals(Long.MIN_VALUE, value(Long.MIN_VALUE));
    assertEquals(0.5, value(0.5f));
    assertEquals(1e300, value(1e300));
    assertEquals("NaN", value(Double.NaN));
    assertEquals("-Infinity", value(Float.NEGATIVE_INFINITY));
    assertEquals("2026-11-26T02:00:00Z", value(Instant.parse("2026-11-26T02:00:00Z")));
    assertEquals("1970-01-01T00:00:00.001Z", value(new Date(1)));
    assertEquals("ERROR", value(Level.ERROR));
    assertEquals("/tmp/x", value(Path.of("/tmp/x")));
    assertEquals("x", value(Optional.of("x")));
    assertEquals(null, value(Optional.empty()));
    assertEquals(List.of(1L, 2L), value(new int[] {1, 2}));
    assertEquals(List.of("a", List.of(true)), value(new Object[] {"a", new boolean[] {true}}));
    assertEquals("aé", value("aé".getBytes(StandardCharsets.UTF_8)));
    assertEquals("a\ufffd", value(new byte[] {'a', (byte) 0xff}));
    assertEquals(Map.of("7", "x", "null", 1L), value(mapWithOddKeys()));
    String large = line(LogRecord.of(null, "m").with("v", BigInteger.TEN.pow(30)));
    assertTrue(large.contains("\"v\":1" + "0".repeat(30) + "}"), large);
    String exact = line(LogRecord.of(null, "m").with("v", new BigDecimal("1.50")));
    assertTrue(exact.contains("\"v\":1.50}"), exact);
  }

  private static Map<Object, Object> mapWithOddKeys() {
    Map<Object, Object> map = new HashMap<>();
    map.put(7, "x");
    map.put(null, 1);
    return map;
  }

  @Test
  void halvesOfSurrogatesAreReplaced() throws IOException {
    Map<String, Object> object = encode(LogRecord.of(null, "a\ud800b\udc00").with("\udbff", "😀"));
    assertEquals("a\ufffdb\ufffd", object.get("message"));
    assertEquals("😀", object.get("\ufffd"));
    // At the bound of the blocks in which texts are encoded.
    String pairs = "x" + "😀".repeat(1000);
    assertEquals(pairs, encode(LogRecord.of(null, pairs)).get("message"));
  }

  @Test
  void failedConversionsBecomeText() throws IOException {
    class Failing {
      @Override
      public String toString() {
        throw new IllegalStateException("no text");
      }
    }
    class Endless {
      @Override
      public String toString() {
        return this + "";
      }
    }
    class Worse extends RuntimeException {
      private static final long serialVersionUID = 1L;

      @Override
      public String getMessage() {
        throw new IllegalStateException("no message");
      }
    }
    class Worst {
      @Override
      public String toString() {
        throw new Worse();
      }
    }
    assertEquals("!ERROR: java.lang.IllegalStateException: no text", value(new Failing()));
    assertEquals("!ERROR: java.lang.StackOverflowError", value(new Endless()));
    assertEquals("!ERROR: " + Worse.class.getName(), value(new Worst()));
    assertEquals(
        List.of(1L, "!ERROR: java.lang.IllegalStateException: no text", 2L),
        value(Arrays.asList(1, new Failing(), 2)));
    // What the first elements wrote is taken back.
    List<Object> halfway =
        new AbstractList<>() {
          @Override
          public Object get(int index) {
            if (index > 0) {
              throw new IllegalStateException("no more");
            }
            return "first";
          }

          @Override
          public int size() {
            return 2;
          }
        };
    assertEquals("!ERROR: java.lang.IllegalStateException: no more", value(halfway));
    assertEquals(
        "!ERROR: java.lang.IllegalStateException: no message",
        encode(LogRecord.of(null, "m").exception(new Worse())).get("exception.message"));
  }

  @Test
  void structuresThatContainThemselvesEnd() throws IOException {
    Map<String, Object> self = new LinkedHashMap<>();
    self.put("a", 1);
    self.put("self", self);
    Map<String, Object> level = Tree.map(value(self));
    int depth = 1;
    while (level.get("self") instanceof Map<?, ?> next) {
      level = Tree.map(next);
      depth++;
    }
    assertEquals(Encoder.DEPTH_MAX, depth);
    assertEquals(
        "!ERROR: java.lang.IllegalArgumentException: nested more than 16 levels deep",
        level.get("self"));
    // It doubles at each level, and ends at the limit of the line.
    List<Object> twice = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      twice.add(twice);
    }
    assertFalse(encoder.encode(LogRecord.of(null, "m").with("v", twice)));
    assertTrue(encoder.bytes().length < 4 << 20);
  }

  @Test
  void mapsThatFailKeepWhatTheyGave() throws IOException {
    Map<String, Object> failing =
        new AbstractMap<>() {
          @Override
          public Set<Entry<String, Object>> entrySet() {
            throw new IllegalStateException("no entries");
          }
        };
    Map<String, Object> object = encode(LogRecord.of(Level.INFO, "m", failing));
    assertEquals("m", object.get("message"));
    assertEquals(
        "!ERROR: java.lang.IllegalStateException: no entries", object.get("bucksaw.attributes"));
    Map<String, Object> changed = new LinkedHashMap<>();
    changed.put("a", 1);
    changed.put(
        "b",
        new Object() {
          @Override
          public String toString() {
            changed.put("d", 1);
            return "b";
          }
        });
    changed.put("c", 1);
    object = encode(LogRecord.of(Level.INFO, "m", changed));
    assertEquals(1L, object.get("a"));
    assertEquals("b", object.get("b"));
    assertEquals(
        "!ERROR: java.util.ConcurrentModificationException", object.get("bucksaw.attributes"));
  }

  @Test
  void nothingOfARecordIsRequired() throws IOException {
    Map<String, Object> object =
        encode(
            LogRecord.of(null, null)
                .at(null)
                .with(null, 1)
                .logger(null)
                .thread(null)
                .exception(null));
    assertEquals("", object.get("message"));
    assertEquals(1L, object.get("_"));
    assertEquals(Set.of("time", "message", "_"), object.keySet());
    Map<String, Object> none = Collections.singletonMap(null, null);
    assertTrue(encode(LogRecord.of(null, "m", none)).containsKey("_"));
  }

  @Test
  void timesOfAllYears() throws IOException {
    for (String time :
        List.of(
            "0001-01-01T00:00:00.000000000Z",
            "1899-12-31T23:59:59.999999999Z",
            "1969-12-31T23:59:59.000000001Z",
            "2000-02-29T12:34:56.789000000Z",
            "2100-03-01T00:00:00.000000000Z",
            "9999-12-31T23:59:59.999999999Z")) {
      assertEquals(time, encode(LogRecord.of(null, "m").at(Instant.parse(time))).get("time"));
    }
    assertEquals(
        "9999-12-31T23:59:59.999999999Z",
        encode(LogRecord.of(null, "m").at(Instant.MAX)).get("time"));
    assertEquals(
        "0001-01-01T00:00:00.000000000Z",
        encode(LogRecord.of(null, "m").at(Instant.MIN)).get("time"));
  }

  @Test
  void longMessagesAreCutAtTheExactLength() throws IOException {
    String attribute = "x".repeat(1000);
    for (String text : List.of("a", "\n", "\u0001", "é", "€", "😀", "\ud800")) {
      String message = text.repeat((1 << 20) + 5);
      Map<String, Object> object = encode(LogRecord.of(Level.WARN, message).with("a", attribute));
      assertTrue(encoder.length() <= 1 << 20 && encoder.length() > (1 << 20) - 16);
      String kept = (String) object.get("message");
      assertEquals(
          Encoder.utf8Length(message),
          Encoder.utf8Length(kept) + (Long) object.get("bucksaw.truncated_bytes"));
      assertEquals(attribute, object.get("a"));
    }
    // One byte decides.
    int others = line(LogRecord.of(null, "").at(Instant.EPOCH)).length();
    String longest = "a".repeat((1 << 20) - others);
    assertEquals(1 << 20, line(LogRecord.of(null, longest).at(Instant.EPOCH)).length());
    assertFalse(line(LogRecord.of(null, longest).at(Instant.EPOCH)).contains("truncated"));
    assertTrue(line(LogRecord.of(null, longest + "a").at(Instant.EPOCH)).contains("truncated"));
  }

  private String line(LogRecord record) {
    assertTrue(encoder.encode(record));
    return new String(encoder.bytes(), 0, encoder.length(), StandardCharsets.UTF_8);
  }

  @Test
  void recordsWhoseAttributesAreTooLongAreRefused() throws IOException {
    LogRecord large = LogRecord.of(null, "m").with("a", "x".repeat(1 << 20));
    assertFalse(encoder.encode(large));
    assertFalse(encoder.encode(LogRecord.of(null, "m").with("a", new int[1 << 20])));
    assertEquals("m", encode(LogRecord.of(null, "m")).get("message"));
  }
}
