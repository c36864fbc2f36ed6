package dev.bucksaw;

/** Why a record was dropped. */
public enum DropReason {
  /** The buffer was full. */
  FULL,
  /** The node refused the batch, with a status that a retry does not change. */
  REFUSED,
  /** The batch was not acknowledged for six days. */
  TOO_OLD,
  /** The attributes alone are longer than 1 MiB. */
  TOO_LARGE,
  /** The record was logged after closing, or was not acknowledged within the close time. */
  CLOSED
}
