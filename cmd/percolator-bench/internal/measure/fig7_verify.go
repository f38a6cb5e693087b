package measure

import "github.com/gopercolator/percolator/tso"

// fig7Stored is what a store holds of a document.
type fig7Stored struct {
	row       string
	document  fig7Document
	clustered bool
	cluster   uint32
	at        tso.Timestamp // of the commit that named the cluster, where there are commits
}

// fig7Audit compares a store with the clustering in memory.
type fig7Audit struct {
	clusters    *fig7Clusters // as it should be, with what has arrived
	checked     int
	differences int
}

// audit takes the documents in the order in which they were clustered. Each has to have the keys that it was loaded with and the
// cluster that it gets after those before it; and those of the repository, and the arrivals of which must says so, have to be
// there.
func (s *fig7Store) audit(stored []fig7Stored, must func(number int) bool, a fig7Arrivals) *fig7Audit {
	out := &fig7Audit{clusters: s.base.clone()}
	seen := map[uint32]bool{}
	for _, st := range stored {
		d := st.document
		if st.row != fig7Row(d.number) || d != s.crawl.document(int(d.number)) || seen[d.number] {
			out.check(false)
			continue
		}
		if !st.clustered {
			out.check(!must(int(d.number)))
			continue
		}
		seen[d.number] = true
		want, old := s.base.of[d.number]
		if !old {
			want, _ = out.clusters.add(d)
		}
		out.check(st.cluster == want)
	}
	absent := func(from, to int) {
		for n := from; n < to; n++ {
			if must(n) && !seen[uint32(n)] {
				out.check(false)
			}
		}
	}
	absent(0, s.crawl.documents)
	absent(a.awake(), a.end())
	return out
}

func (a *fig7Audit) check(same bool) {
	a.checked++
	if !same {
		a.differences++
	}
}

// into puts the outcome into a report.
func (a *fig7Audit) into(d *fig7Delivery) {
	d.checked, d.differences, d.cluster = a.checked, a.differences, a.clusters.mean()
}
