package dev.bucksaw;

import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.SortedMap;
import java.util.function.Consumer;
import java.util.regex.Pattern;

/** Validated settings of a client. */
record Settings(
    List<URI> endpoints,
    SortedMap<String, String> labels,
    Durability durability,
    int batchBytes,
    int batchRecords,
    Duration batchAge,
    long bufferBytes,
    WhenFull whenFull,
    Duration blockTime,
    Duration requestTime,
    Duration closeTime,
    boolean closeAtExit,
    Consumer<Failure> onError) {

  /** Port of an endpoint without a scheme and a port. */
  private static final int DEFAULT_PORT = 7650;

  static final String DEFAULT_ENDPOINT = "127.0.0.1:7650";

  /** Names the default endpoints, with commas between. */
  static final String ENDPOINTS_VARIABLE = "BUCKSAW_ADDR";

  /** Largest number of labels that a node takes. */
  static final int LABELS_MAX = 64;

  private static final int LABEL_NAME_BYTES_MAX = 128;
  private static final int LABEL_VALUE_BYTES_MAX = 1024;
  private static final Pattern LABEL_NAME = Pattern.compile("[A-Za-z_][A-Za-z0-9_.-]*");

  /** Throws an {@link IllegalArgumentException} for a label that a node would refuse. */
  static void checkLabel(String name, String value) {
    Objects.requireNonNull(value, "value");
    if (!LABEL_NAME.matcher(name).matches()) {
      throw new IllegalArgumentException(
          "label name `"
              + name
              + "` is not a letter or `_` followed by letters, digits, `_`, `.` and `-`");
    }
    if (name.length() > LABEL_NAME_BYTES_MAX || Encoder.utf8Length(value) > LABEL_VALUE_BYTES_MAX) {
      throw new IllegalArgumentException(
          "label `"
              + name.substring(0, Math.min(name.length(), 40))
              + "` is too long: a name may have "
              + LABEL_NAME_BYTES_MAX
              + " bytes, a value "
              + LABEL_VALUE_BYTES_MAX);
    }
  }

  /** The addresses to send batches to, in the order of the endpoints. */
  List<URI> ingestAddresses() {
    StringBuilder query = new StringBuilder("/api/v1/ingest?durability=");
    query.append(durability.text()).append("&time_field=time&message_field=message");
    labels.forEach((name, value) -> query.append("&label=").append(encode(name + "=" + value)));
    return endpoints.stream().map(endpoint -> URI.create(endpoint + query.toString())).toList();
  }

  /**
   * The endpoints that a text with commas names.
   *
   * @param needsTls whether all of them must have TLS, and have it without a scheme
   */
  static List<URI> parseEndpoints(String text, boolean needsTls) {
    List<URI> endpoints = new ArrayList<>();
    for (String part : text.split(",")) {
      if (!part.isBlank()) {
        endpoints.add(parseEndpoint(part.trim(), needsTls));
      }
    }
    if (endpoints.isEmpty()) {
      throw new IllegalArgumentException("no endpoint in `" + shown(text) + "`");
    }
    return List.copyOf(endpoints);
  }

  /**
   * Takes {@code http://10.0.0.1:7650}, {@code localhost:7650}, {@code localhost}, and {@code
   * :7650}.
   */
  private static URI parseEndpoint(String text, boolean needsTls) {
    String shown = shown(text);
    String lower = text.toLowerCase(Locale.ROOT);
    boolean hasScheme = lower.startsWith("http://") || lower.startsWith("https://");
    if (!hasScheme && text.contains("://")) {
      throw new IllegalArgumentException("endpoint `" + shown + "` is not of http or https");
    }
    String scheme = needsTls ? "https://" : "http://";
    String address = hasScheme ? text : scheme + (text.startsWith(":") ? "127.0.0.1" : "") + text;
    while (address.endsWith("/")) {
      address = address.substring(0, address.length() - 1);
    }
    URI uri;
    try {
      uri = URI.create(address);
    } catch (IllegalArgumentException e) {
      // Without the message, which has the text.
      throw new IllegalArgumentException("endpoint `" + shown + "` is not an address");
    }
    if (uri.getHost() == null) {
      throw new IllegalArgumentException("endpoint `" + shown + "` has no valid host");
    }
    if (uri.getPort() > 65_535 || uri.getPort() == 0) {
      throw new IllegalArgumentException("endpoint `" + shown + "` has no valid port");
    }
    if (uri.getRawUserInfo() != null || uri.getRawQuery() != null || uri.getFragment() != null) {
      throw new IllegalArgumentException(
          "endpoint `" + shown + "` has a user, a query or a fragment");
    }
    if (needsTls && !uri.getScheme().equalsIgnoreCase("https")) {
      throw new IllegalArgumentException(
          "endpoint `" + shown + "`: caFile, certificateFile and keyFile are for https");
    }
    if (!hasScheme && uri.getPort() < 0) {
      return URI.create(scheme + uri.getHost() + ":" + DEFAULT_PORT + uri.getRawPath());
    }
    return uri;
  }

  /** The text without a user and a password, which an endpoint cannot have. */
  private static String shown(String text) {
    return text.replaceAll("(?s)^(.*?//)?.*@", "$1…@");
  }

  /** Percent-encodes all bytes of UTF-8 but letters, digits, and {@code - . _ ~}. */
  static String encode(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8)
        .replace("+", "%20")
        .replace("*", "%2A")
        .replace("%7E", "~");
  }
}
