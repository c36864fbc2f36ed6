package dev.bucksaw;

/** Pauses between attempts to send a batch. */
final class Pauses {
  private static final double FIRST_MILLIS = 100;
  private static final double LONGEST_MILLIS = 10_000;

  private Pauses() {}

  /**
   * The pause before an attempt.
   *
   * @param attempt 1 for the first retry
   * @param random from 0 to 1
   * @param retryAfterSeconds what the node asked for
   * @return milliseconds
   */
  static double millis(int attempt, double random, int retryAfterSeconds) {
    double longest = Math.min(FIRST_MILLIS * Math.pow(2, attempt - 1.0), LONGEST_MILLIS);
    return Math.max(longest / 2 + random * longest / 2, retryAfterSeconds * 1000.0);
  }
}
