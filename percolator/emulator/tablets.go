package emulator

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/ordered"
)

// diskTable is a table on disks. Its fields are guarded by Disks.mu.
type diskTable struct {
	tablets []*tablet // in the order of their keys
	passed  int64
	reads   int
}

// tablet is a part of a table, from start to the start of the next one.
type tablet struct {
	start    string
	refuse   int // requests that still find it on the move
	unloaded bool
	slow     time.Duration // that a request takes besides
	busy     bool
	waiting  [2][]chan struct{} // waiting reads: those of high priority, then others
}

// table returns a table by its ID. The caller holds d.mu.
func (d *Disks) table(id string) *diskTable {
	if t := d.tables[id]; t != nil {
		return t
	}
	starts := append([]string{""}, d.Bounds[id]...)
	t := &diskTable{tablets: ordered.Map(starts, func(start string) *tablet { return &tablet{start: start} })}
	if d.tables == nil {
		d.tables = map[string]*diskTable{}
	}
	d.tables[id] = t
	return t
}

// bounds returns where a table is cut. The caller holds d.mu.
func (d *Disks) bounds(id string) []string {
	return ordered.Map(d.table(id).tablets[1:], func(t *tablet) string { return t.start })
}

// find returns the tablet that has a key.
func (t *diskTable) find(key string) *tablet {
	i := sort.Search(len(t.tablets), func(i int) bool { return t.tablets[i].start > key })
	return t.tablets[i-1]
}

// Split cuts the tablet that has key in two at key. Each half finds the next request while it is
// being loaded: it gets the code Unavailable.
func (d *Disks) Split(table, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.table(table)
	old := t.find(key)
	if old.start == key {
		return
	}
	old.refuse = 1
	at := slices.Index(t.tablets, old) + 1
	t.tablets = slices.Insert(t.tablets, at, &tablet{start: key, refuse: 1, slow: old.slow})
}

// Move gives the tablet that has key to another node: the next so many requests that need it get
// the code Unavailable.
func (d *Disks) Move(table, key string, requests int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table(table).find(key).refuse = requests
}

// lookUp returns the tablet that has key, unless it is on the move.
func (d *Disks) lookUp(table, key string) (*tablet, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.table(table).find(key)
	return t, t.load()
}

// load refuses one request of a tablet on the move. The caller holds Disks.mu.
func (t *tablet) load() error {
	switch {
	case t.unloaded:
	case t.refuse > 0:
		t.refuse--
	default:
		return nil
	}
	return status.Errorf(codes.Unavailable, "the tablet from %q on is being loaded", t.start)
}

// enter waits for the turn of a read at the tablet that has key, behind all reads of a higher
// priority. The caller calls leave at its end.
func (d *Disks) enter(ctx context.Context, table, key string, low bool) (leave func(), err error) {
	t, err := d.lookUp(table, key)
	if err != nil {
		return nil, err
	}
	leave = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		t.next()
	}
	if turn := d.queue(t, low); turn != nil {
		select {
		case <-turn:
		case <-ctx.Done():
			d.mu.Lock()
			defer d.mu.Unlock()
			if !t.forget(turn) { // its turn had come
				t.next()
			}
			return nil, contextStatus(ctx.Err())
		}
	}
	if err := rest(ctx, d.latency(t)); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// queue takes the turn of an idle tablet, or returns what is closed when the turn has come.
func (d *Disks) queue(t *tablet, low bool) (turn chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !t.busy {
		t.busy = true
		return nil
	}
	class := 0
	if low {
		class = 1
	}
	turn = make(chan struct{})
	t.waiting[class] = append(t.waiting[class], turn)
	return turn
}

// next passes the turn on. The caller holds Disks.mu, as that of forget does.
func (t *tablet) next() {
	for i, waiting := range t.waiting {
		if len(waiting) > 0 {
			close(waiting[0])
			t.waiting[i] = waiting[1:]
			return
		}
	}
	t.busy = false
}

// forget takes a read out of the queue; false: its turn has come.
func (t *tablet) forget(turn chan struct{}) bool {
	for i, waiting := range t.waiting {
		if at := slices.Index(waiting, turn); at >= 0 {
			t.waiting[i] = slices.Delete(waiting, at, at+1)
			return true
		}
	}
	return false
}

// reach judges the rows of one request that mutates many: it refuses all rows of a tablet that is
// on the move.
func (d *Disks) reach(table string) func(row []byte) error {
	if d == nil {
		return func([]byte) error { return nil }
	}
	needed := map[*tablet]error{}
	return func(row []byte) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		t := d.table(tableID(table)).find(string(row))
		if _, known := needed[t]; !known {
			needed[t] = t.load()
		}
		return needed[t]
	}
}

// mutate waits for what a mutation of one row costs.
func (d *Disks) mutate(ctx context.Context, table string, row []byte) error {
	if d == nil {
		return nil
	}
	t, err := d.lookUp(tableID(table), string(row))
	if err != nil {
		return err
	}
	return rest(ctx, d.latency(t))
}

// mutateRows waits for what mutations of many rows cost: the latency once for each tablet.
func (d *Disks) mutateRows(ctx context.Context, req *btpb.MutateRowsRequest) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	var takes time.Duration
	needed := map[*tablet]bool{}
	for _, e := range req.Entries {
		if t := d.table(tableID(req.TableName)).find(string(e.RowKey)); !needed[t] {
			needed[t] = true
			takes += d.Latency + t.slow
		}
	}
	d.mu.Unlock()
	return rest(ctx, takes)
}

// sampleRowKeys answers with the bounds of the tablets.
func (d *Disks) sampleRowKeys(ss grpc.ServerStream, req *btpb.SampleRowKeysRequest) error {
	id := tableID(req.TableName)
	d.mu.Lock()
	bounds := append(d.bounds(id), "")
	d.mu.Unlock()
	for _, end := range bounds {
		offset := 0.0
		for _, c := range d.Clean {
			switch {
			case c.Table != id:
			case end == "":
				offset += float64(c.Bytes)
			default:
				offset += c.place(end) * float64(c.Bytes)
			}
		}
		if err := ss.SendMsg(&btpb.SampleRowKeysResponse{RowKey: []byte(end), OffsetBytes: int64(offset)}); err != nil {
			return err
		}
	}
	return nil
}

// tableID is the last part of a table's full name.
func tableID(name string) string {
	_, id, _ := strings.Cut(name, "/tables/")
	return id
}
