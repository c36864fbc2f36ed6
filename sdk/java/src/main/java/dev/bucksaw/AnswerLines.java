package dev.bucksaw;

/** Placeholder. */
final class AnswerLines {
  static final int LINE_BYTES_MAX = 16 << 20;

  private AnswerLines() {}
}
