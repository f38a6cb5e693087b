package simulated

import (
	"math/bits"
	"time"
)

// hash decides what is random: by the seed, the process and the request, so that a run repeats
// although goroutines interleave differently.
type hash uint64

// What a hash decides, so that no decision depends on another.
const (
	seedMark uint64 = iota + 1
	latencyMark
	shareMark
	underWayMark
	cellsMark
	pauseMark
	pageMark
	orderMark
	tabletMark
	cutMark
	awayMark
	codeMark
	messageMark
	silentMark
	slowMark
	lateMark
	spreadMark
	killMark
	breakMark
	errorMark
	groupMark
	faultMark // and one more for each kind
)

// answerMark is behind those of all kinds of faults.
const answerMark uint64 = faultMark + 1<<16

// spellMark is one more for each kind of fault that holds for a time.
const (
	spellMark      uint64 = faultMark + 2<<16
	connectionMark uint64 = faultMark + 3<<16
	overloadMark   uint64 = faultMark + 4<<16
)

// with mixes a value in (splitmix64).
func (h hash) with(v uint64) hash {
	x := uint64(h) + 0x9e3779b97f4a7c15 + bits.RotateLeft64(v, 29)*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return hash(x ^ x>>31)
}

// float is from 0 up to, and without, 1.
func (h hash) float() float64 { return float64(h>>11) / (1 << 53) }

// below is a number below n, which is positive.
func (h hash) below(n int) int {
	high, _ := bits.Mul64(uint64(h), uint64(n))
	return int(high)
}

// within is a duration from 1 ns up to d.
func (h hash) within(d time.Duration) time.Duration {
	return 1 + time.Duration(h.below(int(max(d, 1))))
}
