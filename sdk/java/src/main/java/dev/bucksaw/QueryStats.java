package dev.bucksaw;

import java.util.List;

/**
 * Statistics at the end of an answer.
 *
 * @param matched records that matched
 * @param partial whether records may be missing
 * @param partialReasons why they may be missing
 * @param timedOut whether the node ended the query at its time limit
 * @param nodesAsked nodes that were asked
 * @param nodesAnswered nodes that answered to the end
 * @param nodesMissing the other nodes
 * @param hints sentences about what the expression probably should have been
 */
public record QueryStats(
    long matched,
    boolean partial,
    List<String> partialReasons,
    boolean timedOut,
    long nodesAsked,
    long nodesAnswered,
    List<MissingNode> nodesMissing,
    List<String> hints) {

  /**
   * Statistics with copies of the lists.
   *
   * @param matched records that matched
   * @param partial whether records may be missing
   * @param partialReasons why they may be missing
   * @param timedOut whether the node ended the query at its time limit
   * @param nodesAsked nodes that were asked
   * @param nodesAnswered nodes that answered to the end
   * @param nodesMissing the other nodes
   * @param hints sentences about what the expression probably should have been
   */
  public QueryStats {
    partialReasons = List.copyOf(partialReasons);
    nodesMissing = List.copyOf(nodesMissing);
    hints = List.copyOf(hints);
  }

  /**
   * A node that did not answer to the end.
   *
   * @param node its id
   * @param address its address; empty if it is not known
   * @param reason a word such as {@code down}
   * @param message a sentence; empty if there is none
   */
  public record MissingNode(String node, String address, String reason, String message) {}
}
