package dev.bucksaw.logback;

import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.classic.spi.IThrowableProxy;
import ch.qos.logback.classic.spi.ThrowableProxyUtil;
import ch.qos.logback.core.UnsynchronizedAppenderBase;
import ch.qos.logback.core.util.Duration;
import ch.qos.logback.core.util.FileSize;
import dev.bucksaw.Client;
import dev.bucksaw.Durability;
import dev.bucksaw.Level;
import dev.bucksaw.LogRecord;
import dev.bucksaw.WhenFull;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.slf4j.Marker;
import org.slf4j.event.KeyValuePair;

/**
 * Sends the events of Logback to Bucksaw.
 *
 * <p>Each appender has a client of its own, which is made by {@link #start} and closed by {@link
 * #stop}, or at the end of the process. It needs no asynchronous appender around it. The entries of
 * the MDC and the key-value pairs of an event become attributes; of two with one name the pair
 * counts. Markers become the attribute {@code marker}.
 *
 * <p>The setters are for {@code logback.xml}, before {@link #start}. What is not set has the
 * default of {@link Client.Builder}.
 */
public class BucksawAppender extends UnsynchronizedAppenderBase<ILoggingEvent> {
  /** Start of the names of the threads of a client. */
  private static final String OWN_THREADS = "bucksaw-";

  private final Client.Builder builder = Client.builder();
  private boolean invalid;
  private volatile Client client;

  /** An appender with the default settings. */
  public BucksawAppender() {}

  /**
   * Sets the nodes, with commas between.
   *
   * @param endpoints addresses such as {@code http://10.0.0.1:7650}
   */
  public void setEndpoints(String endpoints) {
    // The value is not reported: it may have a password.
    set("endpoints", "…", () -> builder.endpoints(endpoints));
  }

  /**
   * Adds a label of all records.
   *
   * @param label {@code name=value}
   */
  public void addLabel(String label) {
    set("label", label, () -> label(label));
  }

  /**
   * Sets when a node acknowledges a batch.
   *
   * @param durability {@code fast}, {@code durable} or {@code bulk}
   */
  public void setDurability(String durability) {
    set("durability", durability, () -> builder.durability(constant(Durability.class, durability)));
  }

  /**
   * Sets the size at which a batch is sent.
   *
   * @param size such as {@code 512KB}
   */
  public void setBatchBytes(String size) {
    set(
        "batchBytes",
        size,
        () -> builder.batchBytes((int) Math.min(Integer.MAX_VALUE, bytes(size))));
  }

  /**
   * Sets the number of records at which a batch is sent.
   *
   * @param records a number
   */
  public void setBatchRecords(String records) {
    set("batchRecords", records, () -> builder.batchRecords(Integer.parseInt(records.trim())));
  }

  /**
   * Sets the age at which a batch is sent.
   *
   * @param age such as {@code 1 second}
   */
  public void setBatchAge(String age) {
    set("batchAge", age, () -> builder.batchAge(time(age)));
  }

  /**
   * Sets the memory for records that are not yet acknowledged.
   *
   * @param size such as {@code 32MB}
   */
  public void setBufferBytes(String size) {
    set("bufferBytes", size, () -> builder.bufferBytes(bytes(size)));
  }

  /**
   * Sets what happens when the buffer is full.
   *
   * @param whenFull {@code drop} or {@code block}
   */
  public void setWhenFull(String whenFull) {
    set("whenFull", whenFull, () -> builder.whenFull(constant(WhenFull.class, whenFull)));
  }

  /**
   * Sets the longest wait of a caller when the buffer is full.
   *
   * @param time such as {@code 100 milliseconds}
   */
  public void setBlockTime(String time) {
    set("blockTime", time, () -> builder.blockTime(time(time)));
  }

  /**
   * Sets the time after which an attempt to send a batch counts as failed.
   *
   * @param time such as {@code 30 seconds}
   */
  public void setRequestTime(String time) {
    set("requestTime", time, () -> builder.requestTime(time(time)));
  }

  /**
   * Sets how long {@link #stop} waits for records to be acknowledged.
   *
   * @param time such as {@code 5 seconds}
   */
  public void setCloseTime(String time) {
    set("closeTime", time, () -> builder.closeTime(time(time)));
  }

  /**
   * Sets the token.
   *
   * @param token the token
   */
  public void setToken(String token) {
    builder.token(token);
  }

  /**
   * Sets a file with the token, which is read before each request.
   *
   * @param file the file
   */
  public void setTokenFile(String file) {
    set("tokenFile", file, () -> builder.tokenFile(Path.of(file.trim())));
  }

  /**
   * Sets whether a token may be sent over plain {@code http} to other machines.
   *
   * @param insecureToken whether it may
   */
  public void setInsecureToken(boolean insecureToken) {
    builder.insecureToken(insecureToken);
  }

  /**
   * Sets the file with the CAs that are trusted.
   *
   * @param file the file
   */
  public void setCaFile(String file) {
    set("caFile", file, () -> builder.caFile(Path.of(file.trim())));
  }

  /**
   * Sets the file with the certificate of the client.
   *
   * @param file the file
   */
  public void setCertificateFile(String file) {
    set("certificateFile", file, () -> builder.certificateFile(Path.of(file.trim())));
  }

  /**
   * Sets the file with the private key of the client.
   *
   * @param file the file
   */
  public void setKeyFile(String file) {
    set("keyFile", file, () -> builder.keyFile(Path.of(file.trim())));
  }

  /**
   * Sets whether a shutdown hook closes the client at the end of the process.
   *
   * @param closeAtExit whether there is a hook
   */
  public void setCloseAtExit(boolean closeAtExit) {
    builder.closeAtExit(closeAtExit);
  }

  /**
   * The client, for its counters and for flushing.
   *
   * @return the client of a started or stopped appender
   */
  public Optional<Client> client() {
    return Optional.ofNullable(client);
  }

  /** Makes the client. If a setting is invalid, the appender does not start. */
  @Override
  public void start() {
    if (isStarted()) {
      return;
    }
    if (invalid) {
      addError("The appender does not start, because a setting is invalid.");
      return;
    }
    try {
      client = builder.build();
    } catch (RuntimeException e) {
      addError("The appender does not start: " + e.getMessage(), e);
      return;
    }
    super.start();
  }

  /** Sends what is in memory, and waits for at most the close time. */
  @Override
  public void stop() {
    if (!isStarted()) {
      return;
    }
    super.stop();
    client.close();
  }

  @Override
  protected void append(ILoggingEvent event) {
    String thread = event.getThreadName();
    if (thread != null && thread.startsWith(OWN_THREADS)) {
      // Sending a record must not make another one.
      return;
    }
    LogRecord record =
        LogRecord.of(level(event.getLevel()), event.getFormattedMessage())
            .at(time(event))
            .logger(event.getLoggerName())
            .thread(thread);
    IThrowableProxy throwable = event.getThrowableProxy();
    if (throwable != null) {
      record
          .with("exception.type", throwable.getClassName())
          .with("exception.message", throwable.getMessage())
          .with("exception.stacktrace", ThrowableProxyUtil.asString(throwable));
    }
    List<Marker> markers = event.getMarkerList();
    if (markers != null && !markers.isEmpty()) {
      record.with("marker", markers.stream().map(Marker::getName).collect(Collectors.joining(",")));
    }
    mdc(event).forEach(record::with);
    List<KeyValuePair> pairs = event.getKeyValuePairs();
    if (pairs != null) {
      for (KeyValuePair pair : pairs) {
        record.with(pair.key, pair.value);
      }
    }
    client.log(record);
  }

  private static Map<String, String> mdc(ILoggingEvent event) {
    try {
      Map<String, String> entries = event.getMDCPropertyMap();
      return entries == null ? Map.of() : entries;
    } catch (NullPointerException e) {
      // A context that a program made by hand has no adapter for the MDC.
      return Map.of();
    }
  }

  private static Instant time(ILoggingEvent event) {
    Instant instant = event.getInstant();
    return instant == null ? Instant.ofEpochMilli(event.getTimeStamp()) : instant;
  }

  /** The level of the contract. A number between two levels is the lower one. */
  static Level level(ch.qos.logback.classic.Level level) {
    int number = level.toInt();
    if (number >= ch.qos.logback.classic.Level.ERROR_INT) {
      return Level.ERROR;
    }
    if (number >= ch.qos.logback.classic.Level.WARN_INT) {
      return Level.WARN;
    }
    if (number >= ch.qos.logback.classic.Level.INFO_INT) {
      return Level.INFO;
    }
    return number >= ch.qos.logback.classic.Level.DEBUG_INT ? Level.DEBUG : Level.TRACE;
  }

  /** Applies a setting. An invalid one prevents the start, so that no other value is used. */
  private void set(String name, String value, Runnable setting) {
    try {
      setting.run();
    } catch (IllegalArgumentException e) {
      invalid = true;
      addError("Invalid setting " + name + "=" + value + ": " + e.getMessage(), e);
    }
  }

  private void label(String label) {
    int equals = label.indexOf('=');
    if (equals < 0) {
      throw new IllegalArgumentException("a label is `name=value`");
    }
    builder.label(label.substring(0, equals).trim(), label.substring(equals + 1).trim());
  }

  private static long bytes(String size) {
    return FileSize.valueOf(size.trim()).getSize();
  }

  private static java.time.Duration time(String time) {
    return java.time.Duration.ofMillis(Duration.valueOf(time.trim()).getMilliseconds());
  }

  private static <E extends Enum<E>> E constant(Class<E> type, String name) {
    return Enum.valueOf(type, name.trim().toUpperCase(Locale.ROOT));
  }
}
