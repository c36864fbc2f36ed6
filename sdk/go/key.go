package bucksaw

import (
	"encoding/hex"
	"time"
)

// keyOf returns a UUID of version 7 with this time, and with random bits from the ten bytes. The node derives the ids of the
// records from it, so it stays the same in all attempts.
func keyOf(at time.Time, random [10]byte) string {
	var id [16]byte
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	text := make([]byte, 0, 36)
	for i, end := range []int{4, 6, 8, 10, 16} {
		start := []int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, id[start:end])
	}
	return string(text)
}
