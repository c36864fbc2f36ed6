package dev.bucksaw.logback;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.joran.JoranConfigurator;
import ch.qos.logback.classic.util.LogbackMDCAdapter;
import ch.qos.logback.core.joran.spi.JoranException;
import ch.qos.logback.core.status.Status;
import dev.bucksaw.Client;
import dev.bucksaw.DropReason;
import dev.bucksaw.Node;
import dev.bucksaw.QueryRequest;
import dev.bucksaw.QueryResult;
import dev.bucksaw.StoredRecord;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Marker;
import org.slf4j.helpers.BasicMarkerFactory;

/** The appender, configured by XML. */
@Timeout(60)
class BucksawAppenderTest {
  @TempDir Path directory;

  private static LoggerContext context(String xml) throws JoranException {
    LoggerContext context = new LoggerContext();
    context.setMDCAdapter(new LogbackMDCAdapter());
    JoranConfigurator configurator = new JoranConfigurator();
    configurator.setContext(context);
    configurator.doConfigure(new ByteArrayInputStream(xml.getBytes(StandardCharsets.UTF_8)));
    return context;
  }

  private static String xml(String settings) {
    return "<configuration><appender name='B' class='dev.bucksaw.logback.BucksawAppender'>"
        + settings
        + "</appender><root level='TRACE'><appender-ref ref='B'/></root></configuration>";
  }

  private static BucksawAppender appender(LoggerContext context) {
    return (BucksawAppender) context.getLogger(Logger.ROOT_LOGGER_NAME).getAppender("B");
  }

  private static List<Status> problems(LoggerContext context) {
    return context.getStatusManager().getCopyOfStatusList().stream()
        .filter(status -> status.getEffectiveLevel() > Status.INFO)
        .toList();
  }

  @Test
  void eventsBecomeRecords() throws Exception {
    try (Node node = new Node(directory)) {
      LoggerContext context =
          context(
              xml(
                  "<endpoints>"
                      + node.address()
                      + "</endpoints><label>service.name=shop</label><label>host.name=a</label>"
                      + "<durability>fast</durability><batchBytes>256KB</batchBytes>"
                      + "<batchRecords>100</batchRecords><batchAge>2 seconds</batchAge>"
                      + "<bufferBytes>16MB</bufferBytes><whenFull>block</whenFull>"
                      + "<blockTime>50 milliseconds</blockTime>"
                      + "<requestTime>10 seconds</requestTime>"
                      + "<closeTime>20 seconds</closeTime><closeAtExit>false</closeAtExit>"));
      assertEquals(List.of(), problems(context));
      Logger logger = context.getLogger("shop.Payments");
      context.getMDCAdapter().put("trace_id", "4bf9");
      context.getMDCAdapter().put("order", "of the MDC");
      Marker marker = new BasicMarkerFactory().getMarker("AUDIT");
      logger
          .atError()
          .addMarker(marker)
          .addKeyValue("order", 4711)
          .addKeyValue("user", Map.of("id", "u7"))
          .setCause(new IllegalStateException("no money", new RuntimeException("inner")))
          .log("payment {} failed", 7);
      context.getMDCAdapter().clear();
      logger.trace("t");
      logger.debug("d");
      logger.info("i");
      logger.warn("w");
      Client client = appender(context).client().orElseThrow();
      context.stop();
      assertEquals(5, client.stats().acknowledged());

      try (Client reading = Client.builder().endpoints(node.address()).build()) {
        try (QueryResult result = reading.query(QueryRequest.of("order=4711"))) {
          StoredRecord record = result.next();
          assertEquals("payment 7 failed", record.line());
          assertEquals(Map.of("service.name", "shop", "host.name", "a"), record.labels());
          Map<String, String> attributes = new HashMap<>(record.attributes());
          String trace = attributes.remove("exception.stacktrace");
          assertTrue(trace.startsWith("java.lang.IllegalStateException: no money"), trace);
          assertTrue(trace.contains("Caused by: java.lang.RuntimeException: inner"), trace);
          assertEquals(
              Map.of(
                  "level", "error",
                  "logger.name", "shop.Payments",
                  "thread.name", Thread.currentThread().getName(),
                  "exception.type", "java.lang.IllegalStateException",
                  "exception.message", "no money",
                  "marker", "AUDIT",
                  "trace_id", "4bf9",
                  "order", "4711",
                  "user.id", "u7"),
              attributes);
        }
        for (String level : List.of("trace", "debug", "info", "warn")) {
          try (QueryResult result = reading.query(QueryRequest.of("level=" + level))) {
            assertEquals(level.substring(0, 1), result.next().line());
            assertFalse(result.hasNext());
          }
        }
      }
    }
  }

  @Test
  void levelsOfTheVectors() throws Exception {
    String vectors = Files.readString(Path.of("../vectors/levels.json"));
    String logback = vectors.substring(vectors.indexOf("\"logback\""));
    for (String name : List.of("TRACE", "DEBUG", "INFO", "WARN", "ERROR")) {
      String text = BucksawAppender.level(ch.qos.logback.classic.Level.valueOf(name)).text();
      assertTrue(logback.contains("\"" + name + "\": \"" + text + "\""), name);
    }
  }

  @Test
  void secretsAreNotInTheStatus() throws Exception {
    String secret = "bks_secret";
    Path file = Files.writeString(directory.resolve("token"), secret);
    String token = "<token>" + secret + "</token>";
    for (String settings :
        List.of(
            "<endpoints>http://u:" + secret + "@a</endpoints>",
            "<endpoints>http://a</endpoints>" + token,
            "<endpoints>localhost</endpoints><token>" + secret + " more</token>",
            "<endpoints>localhost</endpoints>" + token + "<tokenFile>" + file + "</tokenFile>",
            "<endpoints>a</endpoints>" + token + "<caFile>" + file + "</caFile>")) {
      LoggerContext context = context(xml(settings));
      assertFalse(appender(context).isStarted());
      assertFalse(problems(context).isEmpty());
      for (Status status : context.getStatusManager().getCopyOfStatusList()) {
        String text = status + " " + status.getThrowable();
        assertFalse(text.contains(secret), text);
      }
      context.stop();
    }
    for (String settings :
        List.of(
            "<endpoints>localhost</endpoints><tokenFile>" + file + "</tokenFile>",
            "<endpoints>http://a</endpoints><insecureToken>true</insecureToken>" + token)) {
      LoggerContext context = context(xml(settings));
      assertTrue(appender(context).isStarted(), () -> problems(context).toString());
      context.stop();
    }
  }

  @Test
  void invalidSettingsAreErrorsOfTheContext() throws Exception {
    for (String setting :
        List.of(
            "<endpoints>http://</endpoints>",
            "<label>x</label>",
            "<durability>later</durability>",
            "<batchBytes>0</batchBytes>",
            "<whenFull>explode</whenFull>",
            "<closeTime>soon</closeTime>")) {
      LoggerContext context = context(xml(setting));
      assertFalse(problems(context).isEmpty(), setting);
      assertFalse(appender(context).isStarted(), setting);
      context.getLogger("x").info("no exception");
      context.stop();
    }
  }

  @Test
  void anAppenderStartsAndStopsOnceAndSkipsItsOwnThreads() throws Exception {
    BucksawAppender appender = new BucksawAppender();
    appender.stop();
    // Nothing listens there.
    appender.setEndpoints("http://127.0.0.1:1");
    appender.setCloseTime("1 millisecond");
    LoggerContext context = new LoggerContext();
    appender.setContext(context);
    appender.start();
    Client client = appender.client().orElseThrow();
    appender.start();
    assertEquals(client, appender.client().orElseThrow());
    Logger logger = context.getLogger("x");
    logger.addAppender(appender);
    Thread own = new Thread(() -> logger.error("feedback"), "bucksaw-http");
    own.start();
    own.join();
    assertEquals(0, client.stats().logged());
    logger.error("lost");
    assertEquals(List.of(), problems(context));
    appender.stop();
    appender.stop();
    assertEquals(1, client.stats().dropped(DropReason.CLOSED));
  }
}
