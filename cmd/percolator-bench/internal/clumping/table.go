package clumping

import (
	"container/heap"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"
)

// table is rows that become dirty and are cleaned by the runs of observers.
type table struct {
	rows    []row
	written int // rows that became dirty
	reads   int // rows that scanners read
	twice   int // of those, that another scanner has read since the row became dirty
	runs    int
	wasted  int           // runs for rows that another worker had cleaned
	waited  time.Duration // by rows, from when they became dirty until they were clean
}

// row is dirty when written is beyond cleaned.
type row struct {
	written, cleaned int
	since            time.Duration
	readers          uint64 // scanners that have read it since it became dirty
}

func newTable(rows int) *table { return &table{rows: make([]row, rows)} }

func (r *row) dirty() bool { return r.written > r.cleaned }

// write makes a row dirty.
func (t *table) write(i int, now time.Duration) {
	r := &t.rows[i]
	if !r.dirty() {
		r.since, r.readers = now, 0
	}
	r.written++
	t.written++
}

// clean ends a run that began when the row had been written upTo times.
func (t *table) clean(i, upTo int, now time.Duration) {
	r := &t.rows[i]
	t.runs++
	if r.cleaned >= upTo {
		t.wasted++
		return
	}
	r.cleaned = upTo
	t.waited += now - r.since
	r.since, r.readers = now, 0
}

// read notes that a scanner has read a row.
func (t *table) read(i, scanner int) {
	r := &t.rows[i]
	t.reads++
	if r.readers&^(1<<scanner) != 0 {
		t.twice++
	}
	r.readers |= 1 << scanner
}

// dirtyBetween lists at most most dirty rows in [from, to), and where to go on.
func (t *table) dirtyBetween(from, to, most int) (found []int, next int) {
	for i := from; i < to; i++ {
		if !t.rows[i].dirty() {
			continue
		}
		if found = append(found, i); len(found) == most {
			return found, i + 1
		}
	}
	return found, to
}

// Keys are spread evenly over what eight bytes can say.

func (t *table) step() uint64 { return math.MaxUint64 / uint64(len(t.rows)) }

func (t *table) key(i int) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(i)*t.step()))
}

// index is the first row at or behind a key.
func (t *table) index(key string) int {
	var b [8]byte
	copy(b[:], key)
	v := binary.BigEndian.Uint64(b[:])
	i := v / t.step()
	if v%t.step() != 0 || len(key) > 8 {
		i++
	}
	return int(min(i, uint64(len(t.rows))))
}

// end is the row behind a range that ends with key.
func (t *table) end(key string) int {
	if key == "" {
		return len(t.rows)
	}
	return t.index(key)
}

// tablets are the ends of n tablets of the same size.
func (t *table) tablets(n int) []string {
	ends := make([]string, 0, n)
	for i := 1; i < n; i++ {
		ends = append(ends, t.key(i*len(t.rows)/n))
	}
	return ends
}

// distances returns the mean and the least distance between two places in a table that is gone
// through around and around, as fractions of the table, and the share of the pairs that are less
// than a hundredth of it apart.
func distances(places []int, rows int) (mean, least, close float64) {
	least = 1
	pairs := 0
	for i, a := range places {
		for _, b := range places[i+1:] {
			d := max(a-b, b-a)
			f := float64(min(d, rows-d)) / float64(rows)
			mean += f
			least = min(least, f)
			if f < 0.01 {
				close++
			}
			pairs++
		}
	}
	if pairs == 0 {
		return 0, 0, 0
	}
	return mean / float64(pairs), least, close / float64(pairs)
}

// seeded returns a source of chance for one part of a simulation.
func seeded(seed uint64, part int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, bits.ReverseBytes64(uint64(part))))
}

// clock runs processes in virtual time, one at a time and in a fixed order, so that a simulation
// has the same course whenever it is repeated.
type clock struct {
	now    time.Duration // since the beginning
	events eventHeap
	count  int
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

// at has do called when now has passed by d.
func (c *clock) after(d time.Duration, do func()) {
	c.count++
	heap.Push(&c.events, event{c.now + d, c.count, do})
}

// run lets time pass until end.
func (c *clock) run(end time.Duration) {
	for len(c.events) > 0 && c.events[0].at <= end {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	c.now = end
}

// process is a function that runs in virtual time.
type process struct {
	clock   *clock
	next    func() (time.Duration, bool)
	yield   func(time.Duration) bool
	stop    func()
	stopped bool
}

// parked is how long a process sleeps that somebody else wakes.
const parked = time.Duration(-1)

// start begins a process, which runs until f returns.
func (c *clock) start(f func(p *process)) *process {
	p := &process{clock: c}
	p.next, p.stop = iter.Pull(func(yield func(time.Duration) bool) {
		p.yield = yield
		f(p)
	})
	c.after(0, p.resume)
	return p
}

func (p *process) resume() {
	if d, ok := p.next(); ok && d != parked {
		p.clock.after(d, p.resume)
	}
}

// sleep returns false when the simulation is over.
func (p *process) sleep(d time.Duration) bool {
	if !p.stopped && !p.yield(d) {
		p.stopped = true
	}
	return !p.stopped
}

// wake lets a process go on that is parked.
func (p *process) wake() { p.clock.after(0, p.resume) }

// eventHeap implements heap.Interface, the next event on top.
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return last
}
