package dev.bucksaw;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A record to send: a message with a time, a level and attributes.
 *
 * <p>{@link Client#log(LogRecord)} encodes the record before it returns, so later changes have no
 * effect on what is sent. One thread at a time may use a record.
 */
public final class LogRecord {
  private final Level level;
  private final String message;
  private Instant time;
  // Either a map of the caller, which is only read, or one of this record.
  private Map<String, ?> attributes;
  private LinkedHashMap<String, Object> own;

  private LogRecord(Level level, String message, Map<String, ?> attributes) {
    this.level = level;
    this.message = message == null ? "" : message;
    this.attributes = attributes;
  }

  /**
   * A record with the current time.
   *
   * @param level the level; {@code null} for none
   * @param message the message, which becomes the line of the record
   * @return the record
   */
  public static LogRecord of(Level level, String message) {
    return new LogRecord(level, message, Map.of());
  }

  static LogRecord of(Level level, String message, Map<String, ?> attributes) {
    return new LogRecord(level, message, attributes == null ? Map.of() : attributes);
  }

  /**
   * Sets the time. Without it, the time is that of {@link Client#log(LogRecord)}.
   *
   * @param time the time; {@code null} for none
   * @return this record
   */
  public LogRecord at(Instant time) {
    this.time = time;
    return this;
  }

  /**
   * Sets an attribute. Of two attributes with one name, the last counts.
   *
   * <p>Text, numbers, truth values, maps, collections and arrays are sent as such. Other objects
   * are sent as their text.
   *
   * @param name the name
   * @param value the value
   * @return this record
   */
  public LogRecord with(String name, Object value) {
    if (own == null) {
      own = new LinkedHashMap<>();
      attributes = own;
    }
    own.put(name == null ? "" : name, value);
    return this;
  }

  /**
   * Sets the attribute {@code logger.name}.
   *
   * @param name name of the logger; {@code null} for none
   * @return this record
   */
  public LogRecord logger(String name) {
    return name == null ? this : with("logger.name", name);
  }

  /**
   * Sets the attribute {@code thread.name}.
   *
   * @param name name of the thread; {@code null} for none
   * @return this record
   */
  public LogRecord thread(String name) {
    return name == null ? this : with("thread.name", name);
  }

  /**
   * Sets the attributes {@code exception.type}, {@code exception.message} and {@code
   * exception.stacktrace}, which includes the causes.
   *
   * @param exception the exception; {@code null} for none
   * @return this record
   */
  public LogRecord exception(Throwable exception) {
    if (exception == null) {
      return this;
    }
    with("exception.type", exception.getClass().getName());
    // The methods of an exception may fail. The encoder turns the failure into text.
    Lazy message = exception::getMessage;
    Lazy stack =
        () -> {
          StringWriter text = new StringWriter();
          exception.printStackTrace(new PrintWriter(text));
          return text.toString();
        };
    return with("exception.message", message).with("exception.stacktrace", stack);
  }

  /** A text that is made when the record is encoded. */
  @FunctionalInterface
  interface Lazy {
    String text();
  }

  Level level() {
    return level;
  }

  String message() {
    return message;
  }

  Instant time() {
    return time;
  }

  Map<String, ?> attributes() {
    return attributes;
  }
}
