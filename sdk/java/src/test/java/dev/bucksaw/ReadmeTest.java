package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.joran.JoranConfigurator;
import ch.qos.logback.core.status.Status;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The samples of README.md, as they are written there. */
@Timeout(60)
class ReadmeTest {
  @TempDir Path directory;

  private static String block(String language) throws Exception {
    String readme = Files.readString(Path.of("README.md"));
    String fence = "```" + language + "\n";
    int start = readme.indexOf(fence) + fence.length();
    assertTrue(start >= fence.length(), () -> "no block of " + language);
    return readme.substring(start, readme.indexOf("```", start));
  }

  @Test
  void theSampleRuns() throws Exception {
    String sample = block("java");
    assertTrue(sample.lines().count() <= 25);
    Path source = Files.writeString(directory.resolve("Sample.java"), sample);
    try (Node node = new Node(directory)) {
      ProcessBuilder builder =
          new ProcessBuilder(
              ProcessHandle.current().info().command().orElseThrow(),
              "-cp",
              System.getProperty("java.class.path"),
              source.toString());
      builder.environment().put("BUCKSAW_ADDR", node.address());
      Process process = builder.redirectErrorStream(true).start();
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, process.waitFor(), output);
      List<String> lines = output.lines().toList();
      assertEquals(1, lines.size(), output);
      assertTrue(lines.get(0).endsWith(" payment failed, order 4711"), output);
      try (Client client = Client.builder().endpoints(node.address()).build();
          QueryResult result = client.query(QueryRequest.of("service.name=shop"))) {
        assertEquals(
            List.of("started", "payment failed"), result.stream().map(StoredRecord::line).toList());
      }
    }
  }

  @Test
  void theConfigurationOfLogbackIsValid() throws Exception {
    LoggerContext context = new LoggerContext();
    JoranConfigurator configurator = new JoranConfigurator();
    configurator.setContext(context);
    configurator.doConfigure(
        new ByteArrayInputStream(block("xml").getBytes(StandardCharsets.UTF_8)));
    assertEquals(
        List.of(),
        context.getStatusManager().getCopyOfStatusList().stream()
            .filter(status -> status.getEffectiveLevel() > Status.INFO)
            .toList());
    assertTrue(context.getLogger("ROOT").getAppender("BUCKSAW").isStarted());
    context.stop();
  }
}
