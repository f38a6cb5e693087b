package verify

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gopercolator/percolator/internal/webindex/index"
)

// accuracy is how far power iteration may be from its limit: a thousandth of the tolerance for
// stored ranks, which is allowed on top of it.
const accuracy = index.Tolerance / 1000

// rank computes the PageRank of all documents by power iteration, beginning with none.
func (w *web) rank() {
	for _, l := range w.links {
		if end, ok := w.end(l.target); ok && end != l.source {
			d := w.documents[l.source]
			d.targets = append(d.targets, end)
		}
	}
	ids := make([]int32, 0, len(w.documents))
	for id, d := range w.documents {
		slices.Sort(d.targets)
		d.targets = w.limit(slices.Compact(d.targets))
		ids = append(ids, id)
	}
	w.byURL(ids) // so that rounding is the same every time
	next := map[int32]float64{}
	for w.iterate(ids, next) > accuracy {
	}
}

// limit leaves out targets beyond index.MaxTargetBytes in the order of URLs.
func (w *web) limit(targets []int32) []int32 {
	size := 0
	for _, t := range targets {
		size += len(w.urls.list[t])
	}
	if size <= index.MaxTargetBytes {
		return targets
	}
	w.byURL(targets)
	size = 0
	for i, t := range targets {
		if size += len(w.urls.list[t]); size > index.MaxTargetBytes {
			targets = targets[:i]
			break
		}
	}
	slices.Sort(targets)
	return targets
}

// iterate makes one step. It returns how far, in relation to their limits, ranks may be away from
// these: ranks grow from 0, and if none has grown by more than c, then all further growth is at
// most what the constant c instead of 1−d would bring.
func (w *web) iterate(ids []int32, next map[int32]float64) (away float64) {
	for _, id := range ids {
		next[id] = 1 - index.Damping
	}
	for _, id := range ids {
		d := w.documents[id]
		for _, t := range d.targets {
			if w.documents[t] != nil {
				next[t] += index.Damping * d.rank / float64(len(d.targets))
			}
		}
	}
	for _, id := range ids {
		d := w.documents[id]
		away = max(away, (next[id]-d.rank)/(1-index.Damping))
		d.rank = next[id]
	}
	return away
}

// end follows redirects; ok is false if they are a circle.
func (w *web) end(url int32) (end int32, ok bool) {
	for range len(w.leadsTo) + 1 {
		to, redirects := w.leadsTo[url]
		if !redirects {
			return url, true
		}
		url = to
	}
	return 0, false
}

// ranks compares the stored ranks with power iteration, within the tolerance, and balances the
// account of what was passed on and received, exactly.
func (c *check) ranks(context.Context) error {
	due := map[int32]int64{}
	for id, url := range c.web.urls.list {
		d := c.web.documents[int32(id)]
		if d == nil {
			continue
		}
		c.compareTargets(url, d)
		for _, t := range d.storedTargets {
			due[t] += index.Share(d.storedRank, len(d.storedTargets))
		}
		stored := index.RankValue(d.storedRank)
		received := c.web.received[int32(id)]
		switch {
		case math.Abs(stored-d.rank) > (index.Tolerance+accuracy)*d.rank:
			c.compare("rank", url, fmt.Sprintf("%.9f ± %.1f%%", d.rank, 100*index.Tolerance), fmt.Sprintf("%.9f", stored))
		case !index.Settled(d.storedRank, index.RankFor(received)):
			c.compare("undistributed rank", url, "", strconv.FormatInt(index.RankFor(received)-d.storedRank, 10))
		}
	}
	for id, url := range c.web.urls.list {
		c.compare("received rank", url, printNumber(due[int32(id)]), printNumber(c.web.received[int32(id)]))
	}
	return nil
}

// compareTargets compares to which URLs a document has passed its rank on.
func (c *check) compareTargets(url string, d *document) {
	want := slices.Clone(d.targets)
	c.web.byURL(want)
	if slices.Equal(want, d.storedTargets) {
		return
	}
	c.compare("passed to", url, c.web.printURLs(want), c.web.printURLs(d.storedTargets))
}

func (w *web) printURLs(ids []int32) string {
	urls := make([]string, len(ids))
	for i, id := range ids {
		urls[i] = w.urls.list[id]
	}
	return printJSON(urls, len(urls) == 0)
}
