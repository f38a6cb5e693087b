package history

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gopercolator/percolator/tso"
)

// record records a legal history of n transactions, one after the other, on 1,000 cells: two reads
// and two writes each, every tenth a scan of 100 cells, and every hundredth of unknown outcome. It
// calls each after every transaction.
func record(h *Recording, n int, each func(tso.Timestamp)) {
	now := tso.Timestamp(0)
	newest := map[Cell][]byte{}
	at := func(i int) Cell { return Cell{"t", fmt.Sprintf("row-%03d", i%1000), "c"} }
	for i := range n {
		t := h.Begin("c", "bench")
		now += 2
		t.Started(now - 1)
		if i%10 == 0 {
			var es []Entry
			first := i / 10 % 10
			for j := first * 100; j < first*100+100; j++ {
				if v := newest[at(j)]; v != nil {
					es = append(es, Entry{Cell: at(j), Value: v})
				}
			}
			t.Scan("t", fmt.Sprintf("row-%d", first), fmt.Sprintf("row-%d~", first), nil, es)
		}
		for _, c := range []Cell{at(7 * i), at(7*i + 3)} {
			t.Read(c, newest[c])
			if i%100 == 50 { // did not commit
				t.Put(c, []byte("unseen"))
				continue
			}
			newest[c] = fmt.Appendf(nil, "v%d", i)
			t.Put(c, newest[c])
		}
		if i%100 == 50 {
			t.End(Unknown, 0)
		} else {
			t.End(Committed, now)
		}
		each(now)
	}
}

// BenchmarkCheck checks a history as long as that of an hour's soak.
func BenchmarkCheck(b *testing.B) {
	const n = 100_000
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		h := New()
		record(h, n, func(tso.Timestamp) {})
		b.StartTimer()
		if r := Check(h, Rules{}); r.Found() != 0 || r.Committed != n-n/100 {
			b.Fatal(r)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "txn/s")
}

// BenchmarkWindows records and checks a history that is complete as it goes. What is left on the
// heap does not depend on its length.
func BenchmarkWindows(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			most := 0
			for b.Loop() {
				h := New()
				c := NewChecker(h, Rules{})
				record(h, n, func(ts tso.Timestamp) {
					c.Complete(ts)
					most = max(most, len(h.txns))
				})
				if r := c.Finish(); r.Found() != 0 || r.Committed != n-n/100 {
					b.Fatal(r)
				}
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB")
				runtime.KeepAlive(c)
			}
			b.ReportMetric(float64(most), "txns-kept")
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "txn/s")
		})
	}
}
