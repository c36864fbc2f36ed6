package bucksaw

import (
	"sync"
	"time"
)

// batch is a body of encoded lines with its key.
type batch struct {
	key     string
	created time.Time
	lines   []byte
	records int64
	number  uint64
}

// firstBufferBytes is the size of the first memory of a batch, which grows as needed.
const firstBufferBytes = 64 << 10

// spareBuffersMax is the number of buffers of sent batches that are kept for later ones.
const spareBuffersMax = 2

// buffer has the batches that are not acknowledged: the open one, to which records are appended, and those that are sealed, in
// the order in which they are sent. The first sealed batch is the one that is being sent.
type buffer struct {
	settings Config
	now      func() time.Time
	newKey   func(time.Time) string

	// Has an item when the sender must look again: a batch was opened or sealed, or the buffer was closed.
	wake chan struct{}

	// Never held during I/O. Guards what follows.
	mutex  sync.Mutex
	open   *batch
	sealed []*batch
	spare  [][]byte
	stats  Stats
	closed bool
	// Numbers of the newest batch, of the newest one that is sent whatever its age, and of the newest one that has left.
	newest, expedited, left uint64
	// Closed and replaced when a batch leaves, and when the buffer is closed.
	progress chan struct{}
}

func newBuffer(settings Config, now func() time.Time, newKey func(time.Time) string) *buffer {
	return &buffer{
		settings: settings, now: now, newKey: newKey,
		wake: make(chan struct{}, 1), progress: make(chan struct{}),
	}
}

// add appends a line to the open batch. It waits if the buffer is full and the settings say so.
func (b *buffer) add(line []byte) error {
	var expired <-chan time.Time
	waits := b.settings.WhenFull == Block && len(line) <= b.settings.BufferBytes
	for {
		b.mutex.Lock()
		if b.closed {
			b.stats.Logged++
			b.stats.Dropped.Closed++
			b.mutex.Unlock()
			return ErrClosed
		}
		if b.stats.BufferedBytes+int64(len(line)) <= int64(b.settings.BufferBytes) {
			b.append(line)
			b.mutex.Unlock()
			return nil
		}
		b.expedite() // The open batch may be what fills the buffer.
		if !waits {
			b.stats.Logged++
			b.stats.Dropped.Full++
			b.mutex.Unlock()
			return ErrFull
		}
		progress := b.progress
		b.mutex.Unlock()
		if expired == nil {
			timer := time.NewTimer(b.settings.BlockTime)
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-progress:
		case <-expired:
			waits = false // The buffer is looked at once more.
		}
	}
}

// append adds a line that fits. The lock is held.
func (b *buffer) append(line []byte) {
	if b.open != nil && len(b.open.lines)+len(line) > b.settings.BatchBytes {
		b.seal()
	}
	if b.open == nil {
		b.newest++
		now := b.now()
		b.open = &batch{key: b.newKey(now), created: now, number: b.newest}
		if n := len(b.spare); n > 0 {
			b.open.lines, b.spare = b.spare[n-1], b.spare[:n-1]
		} else {
			b.open.lines = make([]byte, 0, min(b.settings.BatchBytes, firstBufferBytes))
		}
		b.signal()
	}
	b.open.lines = append(b.open.lines, line...)
	b.open.records++
	b.stats.Logged++
	b.stats.BufferedRecords++
	b.stats.BufferedBytes += int64(len(line))
	if len(b.open.lines) >= b.settings.BatchBytes || b.open.records >= int64(b.settings.BatchRecords) {
		b.seal()
	}
}

// seal ends the open batch. The lock is held.
func (b *buffer) seal() {
	if b.open != nil {
		b.sealed = append(b.sealed, b.open)
		b.open = nil
		b.signal()
	}
}

// expedite has the open batch sent as soon as the sender is free. It grows until then: sealed at each call, it would leave many
// batches with much unused memory. The lock is held.
func (b *buffer) expedite() {
	b.expedited = b.newest
	b.signal()
}

func (b *buffer) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// next returns the batch to send. Without one it returns the time until the open batch is old enough, or 0 if none is open;
// ended is true if the buffer is closed and empty.
func (b *buffer) next() (_ *batch, wait time.Duration, ended bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.sealed) == 0 && b.open != nil {
		wait = b.settings.BatchAge - b.now().Sub(b.open.created)
		if wait > 0 && b.open.number > b.expedited {
			return nil, wait, false
		}
		b.seal()
	}
	if len(b.sealed) == 0 {
		return nil, 0, b.closed
	}
	return b.sealed[0], 0, false
}

// leave removes the first batch, and counts its records with count. reusable says that nothing reads its lines any more.
func (b *buffer) leave(reusable bool, count func(*Stats)) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	first := b.sealed[0]
	b.sealed[0] = nil
	b.sealed = b.sealed[1:]
	b.stats.BufferedRecords -= first.records
	b.stats.BufferedBytes -= int64(len(first.lines))
	count(&b.stats)
	if reusable && len(b.spare) < spareBuffersMax && cap(first.lines) <= 2*b.settings.BatchBytes {
		b.spare = append(b.spare, first.lines[:0])
	}
	b.left = first.number
	b.advance()
}

// advance wakes those who wait for progress. The lock is held.
func (b *buffer) advance() {
	close(b.progress)
	b.progress = make(chan struct{})
}

// retried counts another attempt.
func (b *buffer) retried() {
	b.mutex.Lock()
	b.stats.Retries++
	b.mutex.Unlock()
}

// denied counts an attempt that was refused for its credential.
func (b *buffer) denied() {
	b.mutex.Lock()
	b.stats.Denied++
	b.mutex.Unlock()
}

// tooLarge counts a record that has no line.
func (b *buffer) tooLarge() error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.stats.Logged++
	if b.closed {
		b.stats.Dropped.Closed++
		return ErrClosed
	}
	b.stats.Dropped.TooLarge++
	return ErrTooLarge
}

// flush has all records sent, and returns the number of the newest batch.
func (b *buffer) flush() uint64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.expedite()
	return b.newest
}

// hasLeft says whether the batch with this number has left, and else returns what closes at the next progress.
func (b *buffer) hasLeft(number uint64) (bool, <-chan struct{}) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.left >= number, b.progress
}

// close makes add fail, and seals the open batch.
func (b *buffer) close() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.seal()
	b.closed = true
	b.advance()
	b.signal()
}

// clear drops all batches. It returns the number of their records. Nothing may be sending.
func (b *buffer) clear() int64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	records := b.stats.BufferedRecords
	b.stats.Dropped.Closed += records
	b.stats.BufferedRecords, b.stats.BufferedBytes = 0, 0
	b.sealed, b.open, b.spare = nil, nil, nil
	b.left = b.newest
	b.advance()
	return records
}

func (b *buffer) snapshot() Stats {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.stats
}
