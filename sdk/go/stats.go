package bucksaw

// Stats are the counters of a client. At any time Logged is the sum of Acknowledged, Rejected, Dropped.Total and
// BufferedRecords.
type Stats struct {
	Logged       int64 // Records that were logged, also those that were dropped.
	Acknowledged int64 // Records that a node stored.
	Rejected     int64 // Records that a node did not store, of batches that it accepted.
	Retries      int64 // Attempts to send a batch but the first.
	Denied       int64 // Attempts that a node refused with 401 or 403: the client has no token, or one that does not suffice.
	Dropped      Dropped
	// Records that are not acknowledged yet, and the bytes of their lines.
	BufferedRecords int64
	BufferedBytes   int64
}

// Dropped counts lost records by reason.
type Dropped struct {
	Full     int64 // The buffer was full.
	Refused  int64 // A node refused their batch.
	TooOld   int64 // Their batch could not be sent for six days.
	TooLarge int64 // Their attributes are longer than 1 MiB.
	Closed   int64 // Logged after closing, or not acknowledged within the close time.
}

// Total returns the sum over all reasons.
func (d Dropped) Total() int64 { return d.Full + d.Refused + d.TooOld + d.TooLarge + d.Closed }
