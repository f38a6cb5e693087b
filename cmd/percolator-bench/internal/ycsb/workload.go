// Package ycsb has the workloads of the Yahoo! Cloud Serving Benchmark, A to F (Cooper et al., SoCC
// 2010), the closed economy of YCSB+T (Dey et al., ICDE Workshops 2014), and the stores that they
// run on.
package ycsb

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
)

// Kind is what an operation does.
type Kind int

// The kinds of operations. Each is a transaction, where a store has them.
const (
	Read     Kind = iota // of all fields of a record
	Update               // of one field, unread
	Insert               // of a new record
	Scan                 // of some records from a key on, all fields
	Modify               // reads all fields of a record and writes one
	Balance              // reads an account
	Transfer             // reads two accounts and writes both
	Kinds                // how many there are
)

// String implements fmt.Stringer.
func (k Kind) String() string {
	return [Kinds]string{"reads", "updates", "inserts", "scans", "modifications", "balances", "transfers"}[k]
}

// Workload is a mix of operations on keys that are chosen in some way.
type Workload struct {
	Name   string
	Title  string
	Mix    [Kinds]float64 // shares
	Latest bool           // the newest records are the most popular; otherwise any, by Zipf's law
}

// Economy tells whether a workload moves money between accounts.
func (w Workload) Economy() bool { return w.Mix[Transfer] > 0 }

// Workloads are all, in the order in which YCSB runs them: the ones that insert come last.
func Workloads() []Workload {
	return []Workload{
		{Name: "a", Title: "A: 50 % reads, 50 % updates", Mix: [Kinds]float64{Read: 0.5, Update: 0.5}},
		{Name: "b", Title: "B: 95 % reads, 5 % updates", Mix: [Kinds]float64{Read: 0.95, Update: 0.05}},
		{Name: "c", Title: "C: reads", Mix: [Kinds]float64{Read: 1}},
		{Name: "f", Title: "F: 50 % reads, 50 % read-modify-writes", Mix: [Kinds]float64{Read: 0.5, Modify: 0.5}},
		{Name: "d", Title: "D: 95 % reads of the latest, 5 % inserts", Mix: [Kinds]float64{Read: 0.95, Insert: 0.05}, Latest: true},
		{Name: "e", Title: "E: 95 % scans, 5 % inserts", Mix: [Kinds]float64{Scan: 0.95, Insert: 0.05}},
		{Name: "t", Title: "T, the closed economy: 90 % reads, 10 % transfers", Mix: [Kinds]float64{Balance: 0.9, Transfer: 0.1}},
	}
}

// Shape is how much data there is.
type Shape struct {
	Records, Accounts   int
	Fields, FieldLength int
	ScanLength          int // records of a scan at most
}

// Record is the values of a record's fields.
type Record [][]byte

// Key is the key of the i-th record or account: hashed, so that popular ones are no neighbours.
func Key(i int64) string { return fmt.Sprintf("user%019d", scatter(i)) }

// Data is what a store holds, for all callers.
type Data struct {
	Shape
	mu         sync.Mutex
	next, last int64          // number to insert, and the last before which all are there
	ahead      map[int64]bool // that are there, after a gap
}

// NewData is the data of a store that was loaded with its records and accounts.
func NewData(s Shape) *Data {
	return &Data{Shape: s, next: int64(s.Records), last: int64(s.Records) - 1, ahead: map[int64]bool{}}
}

// Last is the number of the last record before which all are there.
func (d *Data) Last() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

func (d *Data) insert() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	return d.next - 1
}

func (d *Data) inserted(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.ahead[n] = true; d.ahead[d.last+1]; d.last++ {
		delete(d.ahead, d.last+1)
	}
}

// Caller makes the operations of a workload, one after the other.
type Caller struct {
	workload Workload
	data     *Data
	store    Store
	random   *rand.Rand
	zipf     *zipf
}

// NewCaller returns a caller of a workload on a store.
func NewCaller(w Workload, d *Data, s Store, seed uint64) *Caller {
	c := &Caller{workload: w, data: d, store: s, random: rand.New(rand.NewPCG(seed, 0)), zipf: allNumbers()}
	if w.Latest {
		c.zipf = newZipf(d.Last() + 1)
	}
	return c
}

// choose chooses what the next operation does.
func (c *Caller) choose() (kind Kind) {
	at := c.random.Float64()
	for k, share := range c.workload.Mix {
		if share > 0 {
			if kind = Kind(k); at < share {
				break
			}
			at -= share
		}
	}
	return kind
}

// number chooses a record or an account.
func (c *Caller) number() int64 {
	switch {
	case c.workload.Latest:
		last := c.data.Last()
		c.zipf.grow(last + 1)
		return last - c.zipf.next(c.random)
	case c.workload.Economy():
		return scatter(c.zipf.next(c.random)) % int64(c.data.Accounts)
	}
	return scatter(c.zipf.next(c.random)) % int64(c.data.Records)
}

// Record makes up a record.
func (c *Caller) Record() Record {
	r := make(Record, c.data.Fields)
	for i := range r {
		r[i] = c.value()
	}
	return r
}

func (c *Caller) value() []byte {
	v := make([]byte, c.data.FieldLength)
	for i := range v {
		v[i] = ' ' + byte(c.random.IntN('~'-' '))
	}
	return v
}

// Operate makes the next operation. What is read has to be whole.
func (c *Caller) Operate(ctx context.Context) (Kind, error) {
	kind := c.choose()
	return kind, c.operate(ctx, kind)
}

func (c *Caller) operate(ctx context.Context, kind Kind) error {
	if kind == Insert {
		n := c.data.insert()
		err := c.store.Insert(ctx, Key(n), c.Record())
		if err == nil {
			c.data.inserted(n)
		}
		return err
	}
	n := c.number()
	key, field := Key(n), c.random.IntN(c.data.Fields)
	switch kind {
	case Read:
		r, err := c.store.Read(ctx, key)
		return cmp.Or(err, c.whole(key, r))
	case Update:
		return c.store.Update(ctx, key, field, c.value())
	case Scan:
		most := 1 + c.random.IntN(c.data.ScanLength)
		found, err := c.store.Scan(ctx, key, most)
		if err == nil && (len(found) == 0 || len(found) > most) {
			err = fmt.Errorf("a scan of %d from %s found %d records", most, key, len(found))
		}
		for _, r := range found {
			err = cmp.Or(err, c.whole(key, r))
		}
		return err
	case Modify:
		r, err := c.store.Modify(ctx, key, field, c.value())
		return cmp.Or(err, c.whole(key, r))
	case Balance:
		_, err := c.store.Balance(ctx, key)
		return err
	}
	to := c.random.Int64N(int64(c.data.Accounts) - 1)
	if to >= n {
		to++
	}
	return c.store.Transfer(ctx, key, Key(to), 1+c.random.Int64N(10))
}

// whole refuses a record that lacks something.
func (c *Caller) whole(key string, r Record) error {
	if len(r) != c.data.Fields {
		return fmt.Errorf("record %s has %d fields of %d", key, len(r), c.data.Fields)
	}
	for i, v := range r {
		if len(v) != c.data.FieldLength {
			return fmt.Errorf("field %d of record %s has %d bytes of %d", i, key, len(v), c.data.FieldLength)
		}
	}
	return nil
}
