package observers

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sort"
	"sync"
	"time"
)

const (
	tabletsFor   = time.Minute // how long the boundaries of tablets are believed
	fewTablets   = 8           // with fewer, their boundaries say too little about where rows are
	sampledRows  = 64          // rows remembered of each table
	sampleOneOf  = 8           // once those are full, every 8th row replaces one
	sampleWithin = 10 * time.Second
)

// positions says where a scanner starts: a random tablet, and a random key in it. Tablets hold similar amounts of data, so
// that spreads scanners over the data. A table with few tablets (or the emulator, which names none, or random rows) is split
// by rows that were met before.
type positions struct {
	sample func(ctx context.Context, table string) ([]string, error) // the ends of the tablets, sorted

	mu     sync.Mutex
	tables map[string]*tableSample
}

type tableSample struct {
	tablets []string
	until   time.Time // when tablets are asked for again
	rows    []string
}

func newPositions(sample func(context.Context, string) ([]string, error)) *positions {
	return &positions{sample: sample, tables: map[string]*tableSample{}}
}

func (p *positions) table(name string) *tableSample {
	t := p.tables[name]
	if t == nil {
		t = &tableSample{}
		p.tables[name] = t
	}
	return t
}

// pick returns a random row key of the table to start from; "" is the beginning. Where to start is not worth an error: if
// the tablets cannot be asked for, those known before have to do.
func (p *positions) pick(ctx context.Context, table string) string {
	p.refresh(ctx, table)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.table(table)
	if n := len(t.tablets) + len(t.rows); len(t.tablets) < fewTablets && n > 0 {
		if i := rand.IntN(n); i < len(t.tablets) {
			return t.tablets[i]
		} else {
			return t.rows[i-len(t.tablets)]
		}
	}
	i := rand.IntN(len(t.tablets) + 1)
	var from, to string
	if i > 0 {
		from = t.tablets[i-1]
	}
	if i < len(t.tablets) {
		to = t.tablets[i]
	}
	return between(from, to, rand.Uint64N)
}

// refresh asks for the tablets if that was too long ago. Only one scanner at a time does.
func (p *positions) refresh(ctx context.Context, table string) {
	p.mu.Lock()
	t, now := p.table(table), time.Now()
	fresh := now.Before(t.until)
	if !fresh {
		t.until = now.Add(tabletsFor)
	}
	p.mu.Unlock()
	if fresh {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sampleWithin)
	defer cancel()
	keys, err := p.sample(ctx, table)
	if err != nil {
		return
	}
	sort.Strings(keys)
	for len(keys) > 0 && keys[0] == "" { // the end of the last tablet has no name
		keys = keys[1:]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.tablets = keys
}

// met remembers a row that carried something.
func (p *positions) met(table, row string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch t := p.table(table); {
	case len(t.rows) < sampledRows:
		t.rows = append(t.rows, row)
	case rand.IntN(sampleOneOf) == 0:
		t.rows[rand.IntN(len(t.rows))] = row
	}
}

// between returns a key in [from, to), evenly distributed over the eight bytes behind what from and to have in common; ""
// as to is the end of the table. random(n) returns a number below n.
func between(from, to string, random func(n uint64) uint64) string {
	shared := 0
	for shared < len(from) && shared < len(to) && from[shared] == to[shared] {
		shared++
	}
	low, high := leading(from[shared:]), uint64(math.MaxUint64)
	if to != "" {
		high = leading(to[shared:])
	}
	if high <= low+1 {
		return from
	}
	at := low + random(high-low)
	if at == low {
		return from
	}
	return from[:shared] + string(binary.BigEndian.AppendUint64(nil, at))
}

// leading is the first eight bytes of s as a number.
func leading(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}
