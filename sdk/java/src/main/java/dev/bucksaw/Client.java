package dev.bucksaw;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * Sends records to Bucksaw in the background, and reads records back.
 *
 * <p>Logging encodes the record in the thread of the caller and adds it to a batch in memory. A
 * daemon thread sends the batches. Logging never throws. It never waits for the network, unless the
 * buffer is full and {@link WhenFull#BLOCK} is set: then it waits for at most the block time.
 *
 * <p>Records are acknowledged some time after they are logged; {@link #flush} and {@link #close}
 * wait for that. A program that ends without closing runs {@link #close} in a shutdown hook. All
 * methods may be called by any thread.
 */
public final class Client implements AutoCloseable {
  // Encoders by the number of the thread: mostly one per thread, without a ThreadLocal, which would
  // keep class loaders alive and multiply with virtual threads. A call inside of a call (a method
  // `toString` that logs) finds its place empty and makes another one.
  private static final int ENCODERS = 64;

  /** Longest wait for the background thread to end after everything is finished or dropped. */
  private static final long JOIN_MILLIS = 200;

  private final AtomicReferenceArray<Encoder> encoders = new AtomicReferenceArray<>(ENCODERS);
  private final Settings settings;
  private final Buffer buffer;
  private final Http http;
  private final Reader reader;
  private final Failures failures;
  private final Thread sender;
  private final Thread exitHook;

  private Client(
      Settings settings,
      Credentials credentials,
      Certificates certificates,
      LongSupplier unixMillis) {
    this.settings = settings;
    failures = new Failures(settings.onError(), System.err);
    buffer = new Buffer(settings);
    http = new Http(settings.requestTime(), credentials, certificates);
    reader = new Reader(http, settings.endpoints());
    sender = new Thread(new Sender(settings, buffer, http, failures, unixMillis), "bucksaw-sender");
    sender.setDaemon(true);
    exitHook = settings.closeAtExit() ? new Thread(this::close, "bucksaw-exit") : null;
  }

  private Client started() {
    if (exitHook != null) {
      try {
        Runtime.getRuntime().addShutdownHook(exitHook);
      } catch (IllegalStateException e) {
        // The process is about to end. Whoever makes a client now closes it.
        sender.start();
        return this;
      }
    }
    sender.start();
    return this;
  }

  /**
   * A client with the default settings, which sends to the nodes of the environment variable {@code
   * BUCKSAW_ADDR}, or to {@code http://127.0.0.1:7650}.
   *
   * @return the client, which the caller closes
   */
  public static Client create() {
    return builder().build();
  }

  /**
   * Settings of a client.
   *
   * @return settings with their defaults
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Logs a record.
   *
   * @param record the record; it may be changed or logged again after the call. {@code null} is
   *     ignored
   */
  public void log(LogRecord record) {
    if (record == null) {
      return;
    }
    try {
      int place = (int) Thread.currentThread().getId() & ENCODERS - 1;
      Encoder encoder = encoders.getAndSet(place, null);
      if (encoder == null) {
        encoder = new Encoder();
      }
      if (encoder.encode(record)) {
        buffer.append(encoder.bytes(), encoder.length());
      } else {
        buffer.refuse(DropReason.TOO_LARGE);
      }
      if (encoder.bytes().length <= Encoder.KEPT_BYTES_MAX) {
        encoders.lazySet(place, encoder);
      }
    } catch (Throwable e) {
      // No memory or no stack for the record. Logging must not end what the program does.
      buffer.refuse(DropReason.FULL);
    }
  }

  /**
   * Logs a message with the current time.
   *
   * @param level the level; {@code null} for none
   * @param message the message, which becomes the line of the record
   */
  public void log(Level level, String message) {
    log(LogRecord.of(level, message));
  }

  /**
   * Logs a message with attributes and the current time.
   *
   * @param level the level; {@code null} for none
   * @param message the message, which becomes the line of the record
   * @param attributes the attributes, as for {@link LogRecord#with}
   */
  public void log(Level level, String message, Map<String, ?> attributes) {
    log(LogRecord.of(level, message, attributes));
  }

  /**
   * Sends what is in memory, and waits until all records that were logged before the call are
   * acknowledged or dropped.
   *
   * <p>If the thread is interrupted, the call returns early and the thread stays interrupted.
   * Called by the function of {@link Builder#onError}, it does not wait.
   *
   * @param timeout longest time to wait
   * @return whether the time sufficed
   */
  public boolean flush(Duration timeout) {
    try {
      return buffer.flush(Thread.currentThread() == sender ? 0 : nanos(timeout));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /**
   * Searches for records.
   *
   * <p>The first endpoint that can be reached answers. The call returns when the answer begins. The
   * caller closes the result, best with {@code try}.
   *
   * @param request what to search for
   * @return the records, as they arrive
   * @throws QueryException if no endpoint can be reached, or the node refuses the request
   */
  public QueryResult query(QueryRequest request) {
    return reader.query(request);
  }

  /**
   * Counts records.
   *
   * @param request what to count; its limit and order are ignored
   * @return the exact number, or a lower bound if {@link QueryRequest#allowPartial} is set and the
   *     answer is partial
   * @throws QueryException if no endpoint can be reached, the node refuses the request, or the
   *     answer is incomplete or partial
   */
  public long count(QueryRequest request) {
    return reader.count(request);
  }

  /**
   * Follows records as nodes accept them.
   *
   * <p>The caller closes the tail, best with {@code try}. A tail whose connection is lost without a
   * sign waits until it is closed.
   *
   * @param expression a filter expression; empty for all records
   * @return records and notices
   * @throws QueryException if no endpoint can be reached, or the node refuses the expression
   */
  public Tail tail(String expression) {
    return reader.tail(expression, settings.requestTime());
  }

  /**
   * The counters.
   *
   * @return all counters at one moment
   */
  public Stats stats() {
    return buffer.stats();
  }

  /**
   * Sends what is in memory, waits for at most the close time until it is acknowledged, and drops
   * and counts the rest. Records that are logged later are dropped and counted. Answers of queries
   * that are still open are closed. Further calls have no effect.
   */
  @Override
  public void close() {
    boolean self = Thread.currentThread() == sender;
    buffer.close(self ? 0 : nanos(settings.closeTime()));
    reader.close();
    http.close();
    if (!self) {
      try {
        sender.join(JOIN_MILLIS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
    buffer.reportDropped(failures);
    if (exitHook != null && Thread.currentThread() != exitHook) {
      try {
        Runtime.getRuntime().removeShutdownHook(exitHook);
      } catch (IllegalStateException e) {
        // The process is ending. The hook runs, and finds the client closed.
        return;
      }
    }
  }

  /** Nanoseconds of a duration; the longest duration is 292 years. */
  static long nanos(Duration duration) {
    try {
      return duration.toNanos();
    } catch (ArithmeticException e) {
      return duration.isNegative() ? 0 : Long.MAX_VALUE;
    }
  }

  /** Settings of a client. The defaults suit most programs. */
  public static final class Builder {
    private String endpoints;
    private final TreeMap<String, String> labels = new TreeMap<>();
    private Durability durability = Durability.DURABLE;
    private int batchBytes = 512 << 10;
    private int batchRecords = 10_000;
    private Duration batchAge = Duration.ofSeconds(1);
    private long bufferBytes = 32 << 20;
    private WhenFull whenFull = WhenFull.DROP;
    private Duration blockTime = Duration.ofMillis(100);
    private Duration requestTime = Duration.ofSeconds(30);
    private Duration closeTime = Duration.ofSeconds(5);
    private boolean closeAtExit = true;
    private Consumer<Failure> onError;
    private String token;
    private Path tokenFile;
    private Path caFile;
    private Path certificateFile;
    private Path keyFile;
    private boolean insecureToken;
    private LongSupplier unixMillis = System::currentTimeMillis;

    private Builder() {}

    /**
     * Sets the nodes, in the order in which they are tried. Without it they are those of the
     * environment variable {@code BUCKSAW_ADDR}, with commas between, or {@code
     * http://127.0.0.1:7650}.
     *
     * @param endpoints addresses such as {@code http://10.0.0.1:7650}
     * @return these settings
     * @throws IllegalArgumentException if there is none, or one is invalid
     */
    public Builder endpoints(String... endpoints) {
      String joined = String.join(",", Arrays.asList(endpoints));
      Settings.parseEndpoints(joined, false);
      this.endpoints = joined;
      return this;
    }

    /**
     * Adds a label of all records of this client. Labels say where records come from, such as
     * {@code service.name}. What differs from record to record is an attribute.
     *
     * @param name the name: a letter or {@code _}, followed by letters, digits, {@code _}, {@code
     *     .} and {@code -}, in all at most 128
     * @param value the value, of at most 1024 bytes of UTF-8; with an empty one there is no label
     *     of this name
     * @return these settings
     * @throws IllegalArgumentException if the name or the value is invalid, or there are more than
     *     64 labels
     */
    public Builder label(String name, String value) {
      Settings.checkLabel(name, value);
      if (value.isEmpty()) {
        labels.remove(name);
        return this;
      }
      labels.put(name, value);
      if (labels.size() > Settings.LABELS_MAX) {
        labels.remove(name);
        throw new IllegalArgumentException("more than " + Settings.LABELS_MAX + " labels");
      }
      return this;
    }

    /**
     * Sets when the node acknowledges a batch; by default {@link Durability#DURABLE}.
     *
     * @param durability the durability
     * @return these settings
     */
    public Builder durability(Durability durability) {
      this.durability = Objects.requireNonNull(durability, "durability");
      return this;
    }

    /**
     * Sets the size at which a batch is sent; by default 512 KiB.
     *
     * @param bytes bytes of encoded lines, from 1 to 8 MiB
     * @return these settings
     */
    public Builder batchBytes(int bytes) {
      batchBytes = (int) within("batchBytes", bytes, 1, 8 << 20);
      return this;
    }

    /**
     * Sets the number of records at which a batch is sent; by default 10,000.
     *
     * @param records records, from 1 to 32,768
     * @return these settings
     */
    public Builder batchRecords(int records) {
      batchRecords = (int) within("batchRecords", records, 1, 32_768);
      return this;
    }

    /**
     * Sets the age of its first record at which a batch is sent; by default 1 s.
     *
     * @param age the age, at most an hour
     * @return these settings
     */
    public Builder batchAge(Duration age) {
      batchAge = within("batchAge", age, Duration.ZERO, Duration.ofHours(1));
      return this;
    }

    /**
     * Sets the memory for encoded lines that are not yet acknowledged; by default 32 MiB.
     *
     * @param bytes bytes, at least 1
     * @return these settings
     */
    public Builder bufferBytes(long bytes) {
      bufferBytes = within("bufferBytes", bytes, 1, Long.MAX_VALUE / 2);
      return this;
    }

    /**
     * Sets what happens to a record that does not fit into the buffer; by default {@link
     * WhenFull#DROP}.
     *
     * @param whenFull drop or block
     * @return these settings
     */
    public Builder whenFull(WhenFull whenFull) {
      this.whenFull = Objects.requireNonNull(whenFull, "whenFull");
      return this;
    }

    /**
     * Sets the longest wait of a caller with {@link WhenFull#BLOCK}; by default 100 ms.
     *
     * @param time the time, at most an hour
     * @return these settings
     */
    public Builder blockTime(Duration time) {
      blockTime = within("blockTime", time, Duration.ZERO, Duration.ofHours(1));
      return this;
    }

    /**
     * Sets the time after which an attempt to send a batch counts as failed; by default 30 s.
     *
     * @param time the time, from 1 ms to an hour
     * @return these settings
     */
    public Builder requestTime(Duration time) {
      requestTime = within("requestTime", time, Duration.ofMillis(1), Duration.ofHours(1));
      return this;
    }

    /**
     * Sets the time for which {@link Client#close} waits for records to be acknowledged; by default
     * 5 s.
     *
     * @param time the time, at most an hour
     * @return these settings
     */
    public Builder closeTime(Duration time) {
      closeTime = within("closeTime", time, Duration.ZERO, Duration.ofHours(1));
      return this;
    }

    /**
     * Sets whether a shutdown hook closes the client at the end of the process; by default it does.
     * A program whose own hooks log turns it off, and closes the client at the end of these.
     *
     * @param closeAtExit whether there is a hook
     * @return these settings
     */
    public Builder closeAtExit(boolean closeAtExit) {
      this.closeAtExit = closeAtExit;
      return this;
    }

    /**
     * Sets the token that is sent with each request. Without it and {@link #tokenFile} it is that
     * of the environment variable {@code BUCKSAW_TOKEN}, if that is set.
     *
     * @param token the token
     * @return these settings
     */
    public Builder token(String token) {
      this.token = Objects.requireNonNull(token, "token");
      return this;
    }

    /**
     * Sets a file with the token. It is read before each request, so that a token can be replaced.
     *
     * @param file the file
     * @return these settings
     */
    public Builder tokenFile(Path file) {
      tokenFile = Objects.requireNonNull(file, "file");
      return this;
    }

    /**
     * Sets whether a token may be sent over plain {@code http} to other machines. By default {@link
     * #build} fails then.
     *
     * @param insecureToken whether it may
     * @return these settings
     */
    public Builder insecureToken(boolean insecureToken) {
      this.insecureToken = insecureToken;
      return this;
    }

    /**
     * Sets the file with the CAs that are trusted, in PEM format; by default they are those of
     * Java. This and the two files below are read again when they change, and make an endpoint
     * without a scheme one with {@code https}.
     *
     * @param file the file
     * @return these settings
     */
    public Builder caFile(Path file) {
      caFile = Objects.requireNonNull(file, "file");
      return this;
    }

    /**
     * Sets the file with the certificate of the client, followed by those of intermediate CAs, in
     * PEM format. It needs {@link #keyFile}.
     *
     * @param file the file
     * @return these settings
     */
    public Builder certificateFile(Path file) {
      certificateFile = Objects.requireNonNull(file, "file");
      return this;
    }

    /**
     * Sets the file with the private key of {@link #certificateFile}, in PEM format (PKCS #8) and
     * without a passphrase.
     *
     * @param file the file
     * @return these settings
     */
    public Builder keyFile(Path file) {
      keyFile = Objects.requireNonNull(file, "file");
      return this;
    }

    /**
     * Sets the function that failures are reported to. Without it they are written to standard
     * error, at most once a minute for each kind.
     *
     * <p>The background thread calls it, or the one that closes the client. While it runs, no batch
     * is sent, so it returns soon. It may call {@link Client#stats}. It must not log to the same
     * client, because each failure would make a record.
     *
     * @param function the function
     * @return these settings
     */
    public Builder onError(Consumer<Failure> function) {
      onError = function;
      return this;
    }

    /** Replaces the clock that the age of keys is measured with. */
    Builder unixMillis(LongSupplier clock) {
      unixMillis = clock;
      return this;
    }

    /**
     * Makes a client and starts its background thread.
     *
     * @return the client, which the caller closes
     * @throws IllegalArgumentException if {@code BUCKSAW_ADDR} or {@code BUCKSAW_TOKEN} is used and
     *     invalid, a file cannot be used, or a token would be sent without encryption
     */
    public Client build() {
      Settings settings = settings();
      Credentials credentials =
          new Credentials(token, tokenFile, System.getenv(Credentials.TOKEN_VARIABLE));
      if (!insecureToken) {
        credentials.checkSecrecy(settings.endpoints());
      }
      Certificates certificates = new Certificates(caFile, certificateFile, keyFile);
      return new Client(settings, credentials, certificates, unixMillis).started();
    }

    Settings settings() {
      String nodes = endpoints;
      if (nodes == null) {
        String variable = System.getenv(Settings.ENDPOINTS_VARIABLE);
        nodes = variable == null || variable.isBlank() ? Settings.DEFAULT_ENDPOINT : variable;
      }
      boolean needsTls = caFile != null || certificateFile != null;
      return new Settings(
          Settings.parseEndpoints(nodes, needsTls),
          new TreeMap<>(labels),
          durability,
          batchBytes,
          batchRecords,
          batchAge,
          bufferBytes,
          whenFull,
          blockTime,
          requestTime,
          closeTime,
          closeAtExit,
          onError);
    }

    private static long within(String name, long value, long least, long most) {
      if (value < least || value > most) {
        throw new IllegalArgumentException(
            name + ": " + value + " is not from " + least + " to " + most);
      }
      return value;
    }

    private static Duration within(String name, Duration value, Duration least, Duration most) {
      if (value.compareTo(least) < 0 || value.compareTo(most) > 0) {
        throw new IllegalArgumentException(
            name + ": " + value + " is not from " + least + " to " + most);
      }
      return value;
    }
  }
}
