package console

import (
	"math"
	"strconv"
	"time"
)

// The series that charts show. Rates are per second, times in seconds.
const (
	committed = iota
	conflicts
	aborts
	commitMedian
	commitTail
	readMedian
	readTail
	lockWaits
	lockWaitTime
	timestamps
	waiting
	waitingAge
	runs
	failures
	reads
	conditional
	mutations
	parkedCells
	expiredLocks
	seriesCount
)

// sample is one point of every series.
type sample struct {
	Seq    int64 // counts from 1
	At     time.Time
	Values [seriesCount]float64 // NaN: not known
}

// unknown is a sample without values.
func unknown(seq int64, at time.Time) sample {
	s := sample{Seq: seq, At: at}
	for i := range s.Values {
		s.Values[i] = math.NaN()
	}
	return s
}

// add counts v in, also where nothing was known.
func (s *sample) add(series int, v float64) {
	if math.IsNaN(s.Values[series]) {
		s.Values[series] = 0
	}
	s.Values[series] += v
}

// appendJSON writes the sample as [milliseconds, value…]; what is not known is null.
func (s sample) appendJSON(b []byte) []byte {
	b = append(b, '[')
	b = strconv.AppendInt(b, s.At.UnixMilli(), 10)
	for _, v := range s.Values {
		b = append(b, ',')
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, v, 'g', 5, 64)
	}
	return append(b, ']')
}

// history is the samples of the last while, oldest first. A slice that was handed out is never
// written to again.
type history struct {
	samples []sample
	most    int
}

func (h *history) add(s sample) {
	if len(h.samples) >= 2*h.most {
		h.samples = append(make([]sample, 0, 2*h.most), h.samples[len(h.samples)-h.most+1:]...)
	}
	h.samples = append(h.samples, s)
}

// last returns the newest samples.
func (h *history) last() []sample { return h.samples[max(0, len(h.samples)-h.most):] }

// after returns those that came after seq.
func after(samples []sample, seq int64) []sample {
	for i := len(samples); i > 0; i-- {
		if samples[i-1].Seq <= seq {
			return samples[i:]
		}
	}
	return samples
}
