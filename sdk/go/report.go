package bucksaw

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// reporter combines failures, and hands them to the function of the program in a goroutine of its own: that function may log, or
// take its time.
type reporter struct {
	onError  func(*Error)
	interval time.Duration // Minimum between two reports of one kind.

	wake    chan struct{} // Has an item when pending has changed.
	closing chan struct{}
	ended   chan struct{}

	mutex   sync.Mutex
	pending map[Kind]*Error // Guarded by mutex.
}

func newReporter(onError func(*Error)) *reporter {
	r := &reporter{
		onError: onError, interval: reportInterval, wake: make(chan struct{}, 1),
		closing: make(chan struct{}), ended: make(chan struct{}), pending: map[Kind]*Error{},
	}
	if onError == nil {
		r.interval = stderrInterval
		r.onError = func(err *Error) { fmt.Fprintln(os.Stderr, err) }
	}
	return r
}

// add notes a failure. It does not wait.
func (r *reporter) add(kind Kind, records int64, err error) {
	r.mutex.Lock()
	isNew := r.pending[kind] == nil
	if isNew {
		r.pending[kind] = &Error{Kind: kind}
	}
	r.pending[kind].Records += records
	r.pending[kind].Err = err
	r.mutex.Unlock()
	if !isNew {
		return // The goroutine was woken for it, or waits until it is due.
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run reports until closing. Then it reports the rest.
func (r *reporter) run() {
	defer close(r.ended)
	due := map[Kind]time.Time{}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for isClosing := false; !isClosing; {
		select {
		case <-r.wake:
		case <-timer.C:
		case <-r.closing:
			isClosing = true
		}
		now := time.Now()
		next := time.Hour
		r.mutex.Lock()
		var ready []*Error
		for kind, err := range r.pending {
			if wait := due[kind].Sub(now); wait > 0 && !isClosing {
				next = min(next, wait)
				continue
			}
			due[kind] = now.Add(r.interval)
			ready = append(ready, err)
			delete(r.pending, kind)
		}
		r.mutex.Unlock()
		for _, err := range ready {
			r.report(err)
		}
		timer.Reset(next)
	}
}

// report calls the function of the program. Its panic ends there, since a logger must not end the program.
func (r *reporter) report(err *Error) {
	defer func() { _ = recover() }()
	r.onError(err)
}

// close reports the rest, and waits for that until the channel is closed.
func (r *reporter) close(expired <-chan time.Time) {
	close(r.closing)
	select {
	case <-r.ended:
	case <-expired:
	}
}
