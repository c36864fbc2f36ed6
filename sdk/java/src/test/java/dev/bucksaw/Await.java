package dev.bucksaw;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** Waits for conditions, so that a test that fails also ends. */
final class Await {
  private static final long LIMIT_NANOS = TimeUnit.SECONDS.toNanos(30);

  private Await() {}

  static void until(BooleanSupplier condition) throws InterruptedException {
    long start = System.nanoTime();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() - start > LIMIT_NANOS) {
        throw new AssertionError("the condition was not met within 30 s");
      }
      Thread.sleep(1);
    }
  }
}
