package scanning

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

const (
	tabletsFor   = time.Minute // how long the boundaries of tablets are believed
	fewTablets   = 8           // with fewer, their boundaries say too little about where rows are
	sampledRows  = 64          // rows remembered of each table
	sampleOneOf  = 8           // once those are full, every 8th row replaces one
	sampleWithin = 10 * time.Second
)

// Places picks where a scanner starts: a random key in a random tablet. Tablets hold similar
// amounts of data, so that spreads scanners over the data. With few tablets (the emulator names
// none, or random rows), Places also picks rows met before. Its methods may be called concurrently.
type Places struct {
	sample func(ctx context.Context, table string) ([]string, error) // the ends of the tablets
	now    func() time.Time

	mu     sync.Mutex
	random *rand.Rand
	tables map[string]*tableSample
}

type tableSample struct {
	tablets []string // where one ends and the next begins, sorted
	until   time.Time
	rows    []string
}

// NewPlaces returns the places of a worker; sample returns the ends of a table's tablets.
func NewPlaces(sample func(context.Context, string) ([]string, error), now func() time.Time, random *rand.Rand) *Places {
	return &Places{sample: sample, now: now, random: random, tables: map[string]*tableSample{}}
}

func (p *Places) table(name string) *tableSample {
	t := p.tables[name]
	if t == nil {
		t = &tableSample{}
		p.tables[name] = t
	}
	return t
}

// Pick returns a random row key of a part of the table to start from; "" is the beginning. A
// failure to ask for the tablets is no error: Pick then uses those known before.
func (p *Places) Pick(ctx context.Context, table string, part percolator.Range) string {
	p.refresh(ctx, table)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.table(table)
	tablets := within(t.tablets, part)
	if len(t.tablets) < fewTablets {
		if known := slices.Concat(tablets, within(t.rows, part)); len(known) > 0 {
			return known[p.random.IntN(len(known))]
		}
	}
	from, to := part.Start, part.End
	i := p.random.IntN(len(tablets) + 1)
	if i > 0 {
		from = tablets[i-1]
	}
	if i < len(tablets) {
		to = tablets[i]
	}
	return between(from, to, p.random.Uint64N)
}

// within returns the keys inside part.
func within(keys []string, part percolator.Range) []string {
	if part == percolator.All() {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool {
		return k < part.Start || part.End != "" && k >= part.End
	})
}

// refresh asks for the tablets if the known ones are old. Only one scanner at a time does.
func (p *Places) refresh(ctx context.Context, table string) {
	p.mu.Lock()
	t, now := p.table(table), p.now()
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
	// The last bound has no key.
	keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "" })
	slices.Sort(keys)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.tablets = keys
}

// Met remembers a row that carried a notification or lock.
func (p *Places) Met(table, row string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch t := p.table(table); {
	case len(t.rows) < sampledRows:
		t.rows = append(t.rows, row)
	case p.random.IntN(sampleOneOf) == 0:
		t.rows[p.random.IntN(len(t.rows))] = row
	}
}

// between returns a key in [from, to), evenly distributed over the eight bytes after their common
// prefix. to "" is the end of the table. random(n) returns a number below n.
func between(from, to string, random func(n uint64) uint64) string {
	shared := 0
	for shared < len(from) && shared < len(to) && from[shared] == to[shared] {
		shared++
	}
	low, high := leading(from[shared:]), uint64(math.MaxUint64)
	if to != "" {
		high = leading(to[shared:])
	}
	if high <= low || high-low == 1 {
		return from
	}
	at := low + random(high-low)
	if at == low {
		return from
	}
	return from[:shared] + string(binary.BigEndian.AppendUint64(nil, at))
}

// leading returns the first eight bytes of s as a number.
func leading(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}
