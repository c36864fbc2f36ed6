package dev.bucksaw;

import java.net.URI;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** Sends a batch once. */
interface Transport {
  /**
   * An answer to a batch.
   *
   * @param status the status of HTTP
   * @param retryAfter the header {@code Retry-After}
   * @param body the body; it may be cut at a limit
   */
  record Answer(int status, Optional<String> retryAfter, byte[] body) {}

  /** What may be the cause of attempts that fail, for the end of a report; empty for nothing. */
  String problems();

  /** Starts an attempt. Cancelling the future ends it. */
  CompletableFuture<Answer> send(URI address, Batch batch);
}
