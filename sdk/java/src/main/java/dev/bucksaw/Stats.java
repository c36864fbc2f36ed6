package dev.bucksaw;

import java.util.Map;

/**
 * Counters of a client, all taken at one moment.
 *
 * <p>Always {@code logged = acknowledged + rejected + droppedTotal() + bufferedRecords}.
 *
 * @param logged records that were passed to the client
 * @param acknowledged records that a node accepted
 * @param rejected records of accepted batches that the node did not accept
 * @param retries attempts to send a batch, apart from the first attempt of each batch
 * @param denied attempts that a node refused with 401 or 403: the client has no token, or one that
 *     does not suffice
 * @param dropped dropped records by reason; it has each reason
 * @param bufferedRecords records in memory that are neither acknowledged nor dropped
 * @param bufferedBytes bytes of the encoded lines of these records
 */
public record Stats(
    long logged,
    long acknowledged,
    long rejected,
    long retries,
    long denied,
    Map<DropReason, Long> dropped,
    long bufferedRecords,
    long bufferedBytes) {

  /**
   * Counters with a copy of the map.
   *
   * @param logged records that were passed to the client
   * @param acknowledged records that a node accepted
   * @param rejected records of accepted batches that the node did not accept
   * @param retries attempts to send a batch, apart from the first attempt of each batch
   * @param denied attempts that a node refused with 401 or 403
   * @param dropped dropped records by reason
   * @param bufferedRecords records in memory that are neither acknowledged nor dropped
   * @param bufferedBytes bytes of the encoded lines of these records
   */
  public Stats {
    dropped = Map.copyOf(dropped);
  }

  /**
   * The number of records that were dropped for one reason.
   *
   * @param reason the reason
   * @return the number
   */
  public long dropped(DropReason reason) {
    return dropped.getOrDefault(reason, 0L);
  }

  /**
   * The number of records that were dropped for any reason.
   *
   * @return the number
   */
  public long droppedTotal() {
    return dropped.values().stream().mapToLong(Long::longValue).sum();
  }
}
