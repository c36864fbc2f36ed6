package bucksaw

import (
	"errors"
	"fmt"
	"strings"
)

// Reasons for which a record is dropped while it is logged.
var (
	ErrFull     = errors.New("bucksaw: the buffer is full")
	ErrTooLarge = errors.New("bucksaw: the attributes of a record are longer than 1 MiB")
	ErrClosed   = errors.New("bucksaw: the client is closed")
)

// ErrIncomplete says that an answer ended before its statistics, or that a tail ended.
var ErrIncomplete = errors.New("bucksaw: the answer is incomplete")

// ErrInvalid says that an answer is not what a node sends.
var ErrInvalid = errors.New("bucksaw: the answer is invalid")

// Kind is the kind of a failure.
type Kind string

// The kinds of failures.
const (
	KindFull     Kind = "full"      // Records did not fit into the buffer.
	KindTooLarge Kind = "too_large" // The attributes of records are longer than a line may be.
	KindClosed   Kind = "closed"    // Records were not acknowledged within the close time.
	KindTooOld   Kind = "too_old"   // Records could not be sent for six days.
	KindRefused  Kind = "refused"   // A node refused a batch.
	KindRejected Kind = "rejected"  // A node accepted a batch without these records.
	KindRetry    Kind = "retry"     // An attempt to send a batch failed; the batch is sent again.
	KindDenied   Kind = "denied"    // A node refused the token of an attempt, or the lack of one; the batch is sent again.
)

// Error is a failure in the background.
type Error struct {
	Kind Kind
	// Records is the number of records that are lost, or with KindRetry and KindDenied those of the failed attempts.
	Records int64
	// Err is the newest cause.
	Err error
}

// Error says what failed, and how many records it concerns.
func (e *Error) Error() string {
	cause := strings.TrimPrefix(fmt.Sprint(e.Err), "bucksaw: ")
	records := fmt.Sprintf("%d records", e.Records)
	if e.Records == 1 {
		records = "1 record"
	}
	switch e.Kind {
	case KindRetry:
		return "bucksaw: sending " + records + " failed, and is repeated: " + cause
	case KindDenied:
		return "bucksaw: the node denies access, and sending " + records + " is repeated: " + cause
	case KindRejected:
		return "bucksaw: the node rejected " + records + ": " + cause
	default:
		return "bucksaw: " + records + " dropped: " + cause
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// StatusError is a status other than 200.
type StatusError struct {
	Status int
	// Message is the error that the node states; empty if the answer has none.
	Message string
}

// Error returns the message of the node, or else the status.
func (e *StatusError) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return fmt.Sprintf("status %d", e.Status)
}

// PartialError says that records may be missing in an answer.
type PartialError struct {
	Reasons []string
}

// Error lists the reasons.
func (e *PartialError) Error() string {
	return "bucksaw: records may be missing: " + strings.Join(e.Reasons, "; ")
}
