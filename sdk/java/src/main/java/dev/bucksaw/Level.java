package dev.bucksaw;

/** Level of a record, from the least to the most severe. */
public enum Level {
  /** Steps of a computation. */
  TRACE("trace"),
  /** Facts for the author of the program. */
  DEBUG("debug"),
  /** Normal events. */
  INFO("info"),
  /** Something unexpected that the program handles. */
  WARN("warn"),
  /** An operation failed. */
  ERROR("error"),
  /** The program cannot go on. */
  FATAL("fatal");

  private final String text;

  Level(String text) {
    this.text = text;
  }

  /**
   * The value of the attribute {@code level}.
   *
   * @return the name in small letters
   */
  public String text() {
    return text;
  }
}
