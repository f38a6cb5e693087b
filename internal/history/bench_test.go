package history

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/tso"
)

// long is a legal history of n transactions, one after the other, on 1,000 cells: two reads
// and two writes each, every tenth a scan of 100 cells.
func long(n int) *Recording {
	h := New()
	now := tso.Timestamp(0)
	newest := map[Cell][]byte{}
	at := func(i int) Cell { return Cell{"t", fmt.Sprintf("row-%03d", i%1000), "c"} }
	for i := range n {
		t := h.Begin("c", "bench")
		now += 2
		t.Started(now - 1)
		if i%10 == 0 {
			var es []Entry
			for j := i / 10 % 10 * 100; len(es) < 100 && j < 1000; j++ {
				if v := newest[at(j)]; v != nil {
					es = append(es, Entry{Cell: at(j), Value: v})
				}
				if (j+1)%100 == 0 {
					break
				}
			}
			first := i / 10 % 10
			t.Scan("t", fmt.Sprintf("row-%d", first), fmt.Sprintf("row-%d~", first), nil, es)
		}
		for _, c := range []Cell{at(7 * i), at(7*i + 3)} {
			t.Read(c, newest[c])
			newest[c] = fmt.Appendf(nil, "v%d", i)
			t.Put(c, newest[c])
		}
		t.End(Committed, now)
	}
	return h
}

// BenchmarkCheck checks a history as long as that of an hour's soak.
func BenchmarkCheck(b *testing.B) {
	const n = 200_000
	h := long(n)
	b.ReportAllocs()
	for b.Loop() {
		if r := Check(h, Rules{}); r.Found() != 0 || r.Committed != n {
			b.Fatal(r)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "txn/s")
}
