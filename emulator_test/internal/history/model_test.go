package history

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/tso"
)

// modelFault is what a model store does wrong, once.
type modelFault int

const (
	noFault modelFault = iota
	staleAnswer
	lostWrite
	lostDeletion
	abortShows
	conflictUnseen
	earlyTimestamp
	faults
)

// model is a store that keeps snapshot isolation, or breaks it once. Two recordings are made of it:
// one is judged at the end, the other on the way.
type model struct {
	t        *rapid.T
	now      tso.Timestamp
	cells    map[Cell][]modelVersion
	locked   map[Cell]tso.Timestamp // newest commit of a lock
	open     []*modelTxn
	whole    *Recording
	windowed *Recording
	checker  *Checker
	fault    modelFault
	faultAt  int
	step     int
	ids      int
}

func (f modelFault) String() string {
	return [...]string{"none", "stale answer", "lost write", "lost deletion", "abort shows", "conflict unseen", "early timestamp"}[f]
}

type modelVersion struct {
	commit tso.Timestamp
	value  []byte
}

type modelTxn struct {
	recs   [2]*Txn
	start  tso.Timestamp
	writes map[Cell][]byte
	locks  map[Cell]bool
	id     int
}

// faulty tells, once, that now is the time.
func (m *model) faulty(f modelFault) bool {
	if m.fault != f || m.step < m.faultAt {
		return false
	}
	m.fault = noFault
	return true
}

func (m *model) each(x *modelTxn, f func(*Txn)) {
	f(x.recs[0])
	f(x.recs[1])
}

func (m *model) begin() {
	m.ids++
	x := &modelTxn{writes: map[Cell][]byte{}, locks: map[Cell]bool{}, id: m.ids}
	x.recs = [2]*Txn{m.whole.Begin("c", "model"), m.windowed.Begin("c", "model")}
	m.now += 2
	x.start = m.now
	if len(m.open) == 0 && m.now > 50 && m.faulty(earlyTimestamp) {
		x.start -= 21
	}
	m.each(x, func(t *Txn) { t.Started(x.start) })
	m.open = append(m.open, x)
}

func (m *model) at(c Cell, ts tso.Timestamp) modelVersion {
	vs := m.cells[c]
	for i := len(vs) - 1; i >= 0; i-- {
		if vs[i].commit <= ts {
			return vs[i]
		}
	}
	return modelVersion{}
}

func (m *model) read(x *modelTxn, c Cell) {
	v := m.at(c, x.start)
	if v.value != nil && m.faulty(staleAnswer) {
		v = m.at(c, v.commit-1)
	}
	if own, ok := x.writes[c]; ok {
		v = modelVersion{0, own}
	}
	tell := rapid.Bool().Draw(m.t, "told when")
	m.each(x, func(t *Txn) {
		if tell && v.value != nil {
			t.ReadAt(c, v.value, v.commit)
		} else {
			t.Read(c, v.value)
		}
	})
}

func (m *model) scan(x *modelTxn) {
	var es []Entry
	for c, own := range x.writes {
		if own != nil {
			es = append(es, Entry{c, own, 0})
		}
	}
	for c := range m.cells {
		if v := m.at(c, x.start); v.value != nil && !hasKey(x.writes, c) {
			es = append(es, Entry{c, v.value, v.commit})
		}
	}
	slices.SortFunc(es, func(a, b Entry) int { return a.Cell.Compare(b.Cell) })
	m.each(x, func(t *Txn) { t.Scan("t", "", "", nil, es) })
}

func hasKey(m map[Cell][]byte, c Cell) bool {
	_, ok := m[c]
	return ok
}

func (m *model) write(x *modelTxn, c Cell) {
	switch rapid.IntRange(0, 4).Draw(m.t, "write") {
	case 0:
		x.writes[c] = nil
		m.each(x, func(t *Txn) { t.Delete(c) })
	case 1:
		x.locks[c] = true
		m.each(x, func(t *Txn) { t.Lock(c) })
	default:
		v := fmt.Appendf(nil, "%d", x.id)
		x.writes[c] = v
		m.each(x, func(t *Txn) { t.Put(c, v) })
	}
}

func (m *model) conflicts(x *modelTxn) bool {
	for c := range x.writes {
		if vs := m.cells[c]; len(vs) > 0 && vs[len(vs)-1].commit > x.start || m.locked[c] > x.start {
			return true
		}
	}
	for c := range x.locks {
		if vs := m.cells[c]; len(vs) > 0 && vs[len(vs)-1].commit > x.start || m.locked[c] > x.start {
			return true
		}
	}
	return false
}

func (m *model) end(x *modelTxn) {
	m.open = slices.DeleteFunc(m.open, func(y *modelTxn) bool { return y == x })
	if len(x.writes) == 0 && len(x.locks) == 0 {
		m.each(x, func(t *Txn) { t.End(Committed, 0) })
		return
	}
	if m.conflicts(x) && !m.faulty(conflictUnseen) {
		if m.faulty(abortShows) {
			m.apply(x)
		}
		m.each(x, func(t *Txn) { t.End(Aborted, 0) })
		return
	}
	receipt := Cell{"t", fmt.Sprintf("z%d", x.id), "c"} // so that deletions have an author
	x.writes[receipt] = fmt.Appendf(nil, "receipt %d", x.id)
	m.each(x, func(t *Txn) { t.Put(receipt, x.writes[receipt]) })
	told := rapid.SampledFrom([]string{"committed", "committed", "committed", "unknown", "dead", "not applied", "aborted"}).Draw(m.t, "end")
	if told != "not applied" && told != "aborted" {
		m.apply(x)
	}
	m.each(x, func(t *Txn) {
		switch told {
		case "committed":
			t.End(Committed, m.now)
		case "aborted":
			t.End(Aborted, 0)
		case "unknown", "not applied":
			t.End(Unknown, 0)
		}
	})
}

func (m *model) apply(x *modelTxn) {
	m.now += 2
	var cells []Cell
	for c := range x.writes {
		cells = append(cells, c)
	}
	slices.SortFunc(cells, Cell.Compare)
	for _, c := range cells {
		v := x.writes[c]
		if v != nil && m.faulty(lostWrite) || v == nil && m.faulty(lostDeletion) {
			continue
		}
		m.cells[c] = append(m.cells[c], modelVersion{m.now, v})
	}
	for c := range x.locks {
		m.locked[c] = m.now
	}
}

func (m *model) run() {
	cell := func() Cell {
		return Cell{"t", fmt.Sprintf("row%d", rapid.IntRange(0, 5).Draw(m.t, "row")), "c"}
	}
	for m.step = range rapid.IntRange(20, 200).Draw(m.t, "steps") {
		action := rapid.IntRange(0, 11).Draw(m.t, "action")
		if len(m.open) == 0 || action == 0 && len(m.open) < 5 {
			m.begin()
			continue
		}
		x := m.open[rapid.IntRange(0, len(m.open)-1).Draw(m.t, "who")]
		switch {
		case action < 5:
			m.read(x, cell())
		case action < 8:
			m.write(x, cell())
		case action == 8:
			m.scan(x)
		case action < 11:
			m.end(x)
		default:
			low := m.now
			for _, y := range m.open {
				low = min(low, y.start-1)
			}
			m.checker.Complete(low)
		}
	}
	for len(m.open) > 0 {
		m.end(m.open[0])
	}
	m.begin()
	m.scan(m.open[0])
	m.end(m.open[0])
}
