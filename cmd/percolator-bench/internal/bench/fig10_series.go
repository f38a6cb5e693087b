package bench

import (
	"slices"
	"time"
)

// Fig10Bucket is what happened in a stretch of time.
type Fig10Bucket struct {
	At      float64 `json:"at_s"`                    // its beginning, in seconds since the first transfer was offered
	Commits float64 `json:"transactions_per_second"` // transfers whose callers were told that they are committed
	Runs    float64 `json:"runs_per_second"`         // observer runs that were committed
	Backlog int     `json:"backlog"`                 // at its end: committed transfers without their run
}

// Fig10Dip is how a rate went down and came back, by events a second.
type Fig10Dip struct {
	Before   float64  `json:"before"`               // mean of the steady time before the event
	During   float64  `json:"during"`               // mean while the fault lasts; of what dies at once: 0
	Lowest   float64  `json:"lowest"`               // least bucket from the event until it has recovered
	Recovery *float64 `json:"recovery_s,omitempty"` // from the end of the fault; nil: not before the next event
}

// Fig10Backlog is how many observed changes waited for their run.
type Fig10Backlog struct {
	Before   int      `json:"before"` // the most at the end of any bucket of the steady time before the event
	Normal   int      `json:"normal"` // the same, or what is committed in a tenth of a second if that is more
	Most     int      `json:"most"`
	Recovery *float64 `json:"recovery_s,omitempty"` // from the end of the fault until it stayed normal; nil: not before the next event
}

// span is a stretch of the run, since its beginning.
type span struct{ from, to time.Duration }

// recovered is the share of the rate before an event that counts as recovered, and steadyFor for how long it has to hold:
// as many buckets, on the mean.
const (
	recovered = 0.9
	steadyFor = 4
)

// fig10Moments are when things happened, all but the waits sorted.
type fig10Moments struct {
	commits []time.Time // transfers that were acknowledged
	untold  []time.Time // transfers that were committed all the same: when their callers gave up
	runs    []time.Time // committed
	waits   []fig10Wait // from the end of each committed transfer until its run
}

type fig10Wait struct {
	until  time.Time
	lasted time.Duration
}

// seriesOf sorts moments into buckets of a width, of which all are full.
func seriesOf(begun time.Time, whole, width time.Duration, m fig10Moments) []Fig10Bucket {
	out := make([]Fig10Bucket, int(whole/width))
	counts := make([][3]int, len(out))
	var early [3]int // before begun: such commits have long had their runs
	for kind, moments := range [][]time.Time{m.commits, m.untold, m.runs} {
		for _, at := range moments {
			switch n := int(at.Sub(begun) / width); {
			case at.Before(begun):
				early[kind]++
			case n < len(out):
				counts[n][kind]++
			}
		}
	}
	backlog := early[0] + early[1] - early[2]
	for i, n := range counts {
		backlog += n[0] + n[1] - n[2]
		// An observer may commit before the writer has heard of its own commit.
		out[i] = Fig10Bucket{At: (time.Duration(i) * width).Seconds(), Commits: float64(n[0]) / width.Seconds(),
			Runs: float64(n[2]) / width.Seconds(), Backlog: max(backlog, 0)}
	}
	return out
}

// bucketsIn returns the buckets that lie in s as a whole.
func bucketsIn(all []Fig10Bucket, width time.Duration, s span) []Fig10Bucket {
	first := int((s.from + width - 1) / width)
	end := min(int(s.to/width), len(all))
	if first >= end {
		return nil
	}
	return all[first:end]
}

func meanOf(buckets []Fig10Bucket, rate func(Fig10Bucket) float64) float64 {
	sum := 0.
	for _, b := range buckets {
		sum += rate(b)
	}
	return sum / float64(max(len(buckets), 1))
}

// dipOf finds how a rate went down in the fault and came back before the end. The recovery is at the beginning of the first
// bucket after the fault that has the rate and is followed by others that have it on the mean. Both are asked: what was held up
// comes all at once, so that a mean alone would be reached before anything is.
func dipOf(all []Fig10Bucket, width time.Duration, steady, fault span, end time.Duration, rate func(Fig10Bucket) float64) (d Fig10Dip) {
	d.Before, d.During = meanOf(bucketsIn(all, width, steady), rate), meanOf(bucketsIn(all, width, fault), rate)
	after := bucketsIn(all, width, span{fault.to, end})
	low := bucketsIn(all, width, span{fault.from, end})
	for i := 0; i+steadyFor <= len(after); i++ {
		if least := recovered * d.Before; rate(after[i]) >= least && meanOf(after[i:i+steadyFor], rate) >= least {
			at := after[i].At - fault.to.Seconds()
			d.Recovery = &at
			low = low[:len(low)-len(after)+i+1]
			break
		}
	}
	for i, b := range low {
		if i == 0 || rate(b) < d.Lowest {
			d.Lowest = rate(b)
		}
	}
	return d
}

// backlogOf finds how the backlog grew and went away.
func backlogOf(all []Fig10Bucket, width time.Duration, steady, fault span, end time.Duration) (l Fig10Backlog) {
	for _, b := range bucketsIn(all, width, steady) {
		l.Before = max(l.Before, b.Backlog)
	}
	l.Normal = max(l.Before, int(meanOf(bucketsIn(all, width, steady), func(b Fig10Bucket) float64 { return b.Commits })/10))
	for _, b := range bucketsIn(all, width, span{fault.from, end}) {
		l.Most = max(l.Most, b.Backlog)
	}
	after := bucketsIn(all, width, span{fault.to, end})
	for i := 0; i+steadyFor <= len(after); i++ {
		if !slices.ContainsFunc(after[i:i+steadyFor], func(b Fig10Bucket) bool { return b.Backlog > l.Normal }) {
			at := after[i].At + width.Seconds() - fault.to.Seconds()
			l.Recovery = &at
			break
		}
	}
	return l
}

// longestGap returns the longest time without any of the moments, which are sorted, within s.
func longestGap(begun time.Time, moments []time.Time, s span) time.Duration {
	last, longest := s.from, time.Duration(0)
	for _, at := range moments {
		if t := at.Sub(begun); t > s.from && t < s.to {
			longest, last = max(longest, t-last), t
		}
	}
	return max(longest, s.to-last)
}
