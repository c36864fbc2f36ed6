package dev.bucksaw;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** The lines of an answer, which arrives in parts. */
final class AnswerLines {
  /** Longest line; a longer one makes the answer invalid. */
  static final int LINE_BYTES_MAX = 16 << 20;

  private static final int FIRST_BYTES = 16 << 10;

  /** The parts of an answer. */
  interface Source {
    /** The next part; null at the end. */
    ByteBuffer next();

    /** Why the parts ended early; null if the answer was read to its end. */
    Throwable failure();
  }

  private final Source source;
  private ByteBuffer part = ByteBuffer.allocate(0);
  private byte[] line = new byte[FIRST_BYTES];
  private int length;
  private boolean terminated;

  AnswerLines(Source source) {
    this.source = source;
  }

  /**
   * Reads a line. It is then the first {@link #length()} bytes of {@link #bytes()}, without its
   * line end.
   *
   * @return false at the end of the answer
   */
  boolean next() {
    length = 0;
    while (true) {
      while (!part.hasRemaining()) {
        ByteBuffer following = source.next();
        if (following == null) {
          terminated = false;
          return length > 0;
        }
        part = following;
      }
      int end = part.position();
      while (end < part.limit() && part.get(end) != '\n') {
        end++;
      }
      add(end - part.position());
      if (part.hasRemaining()) {
        part.get();
        terminated = true;
        return true;
      }
    }
  }

  private void add(int count) {
    if (count > LINE_BYTES_MAX - length) {
      throw new QueryException(
          QueryException.Kind.INVALID,
          "a line of the answer is longer than " + LINE_BYTES_MAX + " bytes",
          null);
    }
    if (length + count > line.length) {
      int size = Math.max(length + count, line.length * 2);
      line = Arrays.copyOf(line, Math.min(size, LINE_BYTES_MAX));
    }
    part.get(line, length, count);
    length += count;
  }

  /** Whether the line had a line end. */
  boolean terminated() {
    return terminated;
  }

  byte[] bytes() {
    return line;
  }

  int length() {
    return length;
  }

  Source source() {
    return source;
  }
}
