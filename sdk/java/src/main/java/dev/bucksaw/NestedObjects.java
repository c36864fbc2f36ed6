package dev.bucksaw;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The attributes of one record that are objects.
 *
 * <p>The node makes an attribute {@code object.member} of each member, and rejects a record with
 * too many of them, or with too long a name. So some objects are sent as text, which is one
 * attribute.
 */
final class NestedObjects {
  /** The node divides objects down to this depth. Deeper ones stay JSON text. */
  private static final int DIVIDED_DEPTH = 8;

  /**
   * An object in the line.
   *
   * @param start position of its first byte
   * @param end position behind its last byte
   * @param leaves number of attributes that the node makes of it
   */
  record Span(int start, int end, int leaves) {}

  private final List<Span> spans = new ArrayList<>();

  void clear() {
    spans.clear();
  }

  void add(int start, int end, int leaves) {
    spans.add(new Span(start, end, leaves));
  }

  /**
   * The objects to send as text, from the last to the first: those with most members, until the
   * node makes few enough attributes.
   *
   * @param count number of attributes at the top level
   * @param countMax largest number of attributes that the node may make
   */
  List<Span> chosen(int count, int countMax) {
    int total = count;
    for (Span span : spans) {
      total += span.leaves - 1;
    }
    if (total <= countMax) {
      return List.of();
    }
    List<Span> largest = new ArrayList<>(spans);
    largest.sort(Comparator.comparingInt(Span::leaves).reversed());
    int chosen = 0;
    while (total > countMax) {
      total -= largest.get(chosen).leaves - 1;
      chosen++;
    }
    List<Span> texts = new ArrayList<>(largest.subList(0, chosen));
    texts.sort(Comparator.comparingInt(Span::start).reversed());
    return texts;
  }

  /**
   * The number of attributes that the node makes of an object.
   *
   * @param json a text that {@link Encoder} has written: valid, without spaces between its parts
   * @param start position of the object
   * @param nameBytes bytes of its name
   * @return 0 if a name becomes too long
   */
  static int leaves(byte[] json, int start, int nameBytes) {
    Counter counter = new Counter(json);
    counter.at = start;
    counter.value(nameBytes, 0);
    return counter.isTooLong ? 0 : counter.leaves;
  }

  private static final class Counter {
    private final byte[] json;
    private int at;
    private int leaves;
    private boolean isTooLong;

    Counter(byte[] json) {
      this.json = json;
    }

    /** Passes over a value, and counts it. */
    void value(int nameBytes, int depth) {
      if (nameBytes > Encoder.NAME_BYTES_MAX) {
        isTooLong = true;
      }
      if (json[at] != '{' || json[at + 1] == '}' || depth == DIVIDED_DEPTH) {
        leaves++;
        skip();
        return;
      }
      while (json[at] != '}') {
        // The brace, or a comma.
        at++;
        int member = text();
        // The colon.
        at++;
        value(nameBytes + 1 + member, depth + 1);
      }
      at++;
    }

    /** Passes over a string. Returns the number of bytes that it has as a name at the node. */
    private int text() {
      int count = 0;
      at++;
      while (json[at] != '"') {
        if (json[at] != '\\') {
          at++;
          count++;
        } else if (json[at + 1] != 'u') {
          at += 2;
          count++;
        } else {
          // The encoder escapes characters of one byte only. The node puts U+FFFD in place of NUL.
          count += json[at + 4] == '0' && json[at + 5] == '0' ? 3 : 1;
          at += 6;
        }
      }
      at++;
      return count;
    }

    /** Passes over a value. */
    private void skip() {
      int open = 0;
      do {
        switch (json[at]) {
          case '"' -> {
            text();
            continue;
          }
          case '{', '[' -> open++;
          case '}', ']' -> open--;
          default -> {
            if (open == 0) {
              number();
              return;
            }
          }
        }
        at++;
      } while (open > 0);
    }

    /** Passes over a number or a word, which ends before a comma or the end of the object. */
    private void number() {
      while (json[at] != ',' && json[at] != '}') {
        at++;
      }
    }
  }
}
