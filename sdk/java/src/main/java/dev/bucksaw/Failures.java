package dev.bucksaw;

import java.io.PrintStream;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Passes failures on to the function of the program, or writes them to standard error: at most one
 * line per kind and minute.
 */
final class Failures {
  private static final long INTERVAL_NANOS = TimeUnit.MINUTES.toNanos(1);

  private final Consumer<Failure> function;
  private final PrintStream output;
  private final long[] writtenNanos = new long[Failure.Kind.values().length];
  private final long[] records = new long[Failure.Kind.values().length];
  private final boolean[] written = new boolean[Failure.Kind.values().length];

  Failures(Consumer<Failure> function, PrintStream output) {
    this.function = function;
    this.output = output;
  }

  /** Reports a failure. It never throws, and is called without any lock of the client. */
  void report(Failure.Kind kind, long count, String message, Throwable cause) {
    if (function == null) {
      write(kind, count, message, System.nanoTime());
      return;
    }
    try {
      function.accept(new Failure(kind, count, message, Optional.ofNullable(cause)));
    } catch (Throwable e) {
      // The function of the program failed. The records are lost all the same, so say both.
      write(kind, count, message + " (onError: " + e.getClass().getName() + ")", System.nanoTime());
    }
  }

  synchronized void write(Failure.Kind kind, long count, String message, long nowNanos) {
    int i = kind.ordinal();
    // A batch that fails again and again has the same records each time.
    boolean isRetried = kind == Failure.Kind.ATTEMPT || kind == Failure.Kind.DENIED;
    records[i] = isRetried ? count : records[i] + count;
    if (written[i] && nowNanos - writtenNanos[i] < INTERVAL_NANOS) {
      return;
    }
    String noun = records[i] == 1 ? " record " : " records ";
    output.println("bucksaw: " + records[i] + noun + kind.effect() + ": " + oneLine(message));
    written[i] = true;
    writtenNanos[i] = nowNanos;
    records[i] = 0;
  }

  /** Text of a node must not forge lines or control a terminal. */
  private static String oneLine(String text) {
    StringBuilder line = new StringBuilder(text.length());
    text.codePoints().map(c -> Character.isISOControl(c) ? ' ' : c).forEach(line::appendCodePoint);
    return line.toString();
  }
}
