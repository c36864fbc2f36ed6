package bucksaw

import (
	"context"
	"iter"
	"strconv"
)

// TailOptions say what to follow.
type TailOptions struct {
	// Expr is a filter expression. The empty one matches all records.
	Expr string
	// Rate is the maximum number of records per second; 0 is none. A notice has the number of those that are skipped.
	Rate int
}

// TailEvent is a record, or a notice.
type TailEvent struct {
	Record StoredRecord // If Notice is nil.
	Notice *Notice
}

// Notice says what happened to a tail. Fields that do not apply are zero.
type Notice struct {
	SkippedBytes   int64  // The reader has fallen behind by this, and continues at the newest record.
	SkippedRecords int64  // The rate has skipped these records since the last such notice.
	Lost           string // The reason for which the node was lost.
	Joined         bool   // The node is followed from now on.
	Node           string
}

// Tail yields records as nodes accept them, and notices. It goes on until the caller leaves the loop. Else its last pair has an
// error: that of the context, ErrIncomplete if the connection ends, or those of Query. It does not connect again.
func (c *Client) Tail(ctx context.Context, options TailOptions) iter.Seq2[TailEvent, error] {
	return func(yield func(TailEvent, error) bool) {
		query := parameters{"q=" + escape(options.Expr)}
		if options.Rate != 0 {
			query.add("rate", strconv.Itoa(options.Rate))
		}
		for line, err := range c.answer(ctx, "/api/v1/tail", query) {
			var event TailEvent
			switch {
			case err != nil:
				yield(TailEvent{}, err)
				return
			case line.isRecord():
				event.Record = line.record()
			default:
				if event.Notice = line.notice(); event.Notice == nil {
					continue // A line of a kind that later nodes send.
				}
			}
			if !yield(event, nil) {
				return
			}
		}
	}
}

func (l *answerLine) notice() *Notice {
	notice := Notice{Joined: l.Joined, Node: l.Node}
	if l.SkippedBytes != nil {
		notice.SkippedBytes = *l.SkippedBytes
	}
	if l.SkippedRecords != nil {
		notice.SkippedRecords = *l.SkippedRecords
	}
	if l.Lost != nil {
		notice.Lost = *l.Lost
	}
	if l.SkippedBytes == nil && l.SkippedRecords == nil && l.Lost == nil && !l.Joined {
		return nil
	}
	return &notice
}
