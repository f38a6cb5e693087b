package emulator

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Disks makes requests cost what they cost on Cloud Bigtable, which keeps the families of a row
// together: a read pays for every byte that it passes over, whatever its filter lets through; the
// keys and ranges of one request are served one after another; and each tablet serves one read at a
// time, those under a profile of low priority last. A read that takes long names its progress
// (last_scanned_row_key) and ends with its deadline.
//
// Sizes and speeds are the caller's: with a Speed of 70 GB a second and requests that live for
// 100 ms, a table of 1 TB costs as many requests as with 230 MB a second and 30 s. Bytes are
// counted, so that tests need not look at the time.
//
// The fields are set before Start. The methods may be called concurrently.
type Disks struct {
	Speed   int64               // bytes that one tablet passes over in a second; 0: no limit
	Latency time.Duration       // of every request, and of every key and range after the first
	Reach   int64               // bytes after which a read of ranges is cut off; 0: no limit
	Bounds  map[string][]string // where a table, by its ID, is cut into tablets, ascending
	Clean   []Clean

	mu     sync.Mutex
	tables map[string]*diskTable
}

// Clean is data of a table that is not stored, only paid for: rows that every filter keeps back.
// It lies evenly between Start and End; an End of "" is the end of the table.
type Clean struct {
	Table, Start, End string
	Bytes             int64
}

// OnDisks makes the emulator serve its tables from d.
func OnDisks(d *Disks) Option { return func(s *settings) { s.disks = d } }

// Passed returns how many bytes of a table reads have passed over; 0: there is no Speed, no Reach
// and no Clean data.
func (d *Disks) Passed(table string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.table(table).passed
}

// Reads returns how many ReadRows requests a table has had.
func (d *Disks) Reads(table string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.table(table).reads
}

// progressSteps is how many times a second a read names its progress.
const progressSteps = 200

// pay waits for as long as it takes to pass over n bytes of a table. It calls step after each part
// of them, with how much of n is done.
func (d *Disks) pay(ctx context.Context, table string, n int64, step func(done int64) error) error {
	part := n
	if d.Speed > 0 {
		part = max(d.Speed/progressSteps, 1)
	}
	for done := int64(0); done < n; {
		next := min(part, n-done)
		if d.Speed > 0 {
			if err := rest(ctx, time.Duration(float64(next)/float64(d.Speed)*float64(time.Second))); err != nil {
				return err
			}
		}
		done += next
		d.mu.Lock()
		d.table(table).passed += next
		d.mu.Unlock()
		if err := step(done); err != nil {
			return err
		}
	}
	return nil
}

// rest waits for d, or for the caller to leave.
func rest(ctx context.Context, d time.Duration) error {
	if d > 0 { // a timer that is due at once crashes Go 1.26 in a bubble with the race detector
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return contextStatus(err)
	}
	return nil
}

// place returns how much of c lies before key, from 0 to 1.
func (c Clean) place(key string) float64 {
	low, high := c.numbers()
	return min(max((c.number(key)-low)/(high-low), 0), 1)
}

// key returns the key at a place.
func (c Clean) key(place float64) string {
	low, high := c.numbers()
	at := low + place*(high-low)
	if at >= math.MaxUint64 {
		at = math.Nextafter(math.MaxUint64, 0)
	}
	return c.shared() + string(binary.BigEndian.AppendUint64(nil, uint64(at)))
}

// shared is the prefix of all keys of c.
func (c Clean) shared() string {
	n := 0
	for n < len(c.Start) && n < len(c.End) && c.Start[n] == c.End[n] {
		n++
	}
	return c.Start[:n]
}

func (c Clean) numbers() (low, high float64) {
	if high = math.MaxUint64; c.End != "" {
		high = c.number(c.End)
	}
	return c.number(c.Start), high
}

// number is the eight bytes of a key after what all keys of c share.
func (c Clean) number(key string) float64 {
	shared := c.shared()
	if len(key) < len(shared) || key[:len(shared)] != shared {
		if key < shared {
			return 0
		}
		return math.MaxUint64
	}
	var b [8]byte
	copy(b[:], key[len(shared):])
	return float64(binary.BigEndian.Uint64(b[:]))
}

// diskRead is one ReadRows request that is served from disks, in the order of its keys, or against
// it.
type diskRead struct {
	grpc.ServerStream
	disks    *Disks
	id       string // of the table
	reversed bool
	at       string // all keys below are paid for; reversed: it and all above, "": none
	sizes    []rowSize
	report   bool // the client asked for its progress
	returned int64
	reach    int64 // bytes that are left of Disks.Reach
}

// rowSize is what a row takes without a filter.
type rowSize struct {
	key  string
	size int64
}

// readRows serves req tablet by tablet, and key by key.
func (d *Disks) readRows(g *guard, bt btpb.BigtableServer, ss grpc.ServerStream, req *btpb.ReadRowsRequest) error {
	rows, ok := newRowSet(req.Rows)
	if !ok {
		return g.scanRows(bt, ss, req)
	}
	r := &diskRead{ServerStream: ss, disks: d, id: tableID(req.TableName), reversed: req.Reversed, reach: math.MaxInt64}
	if d.Reach > 0 && len(rows.ranges) > 0 {
		r.reach = d.Reach
	}
	_, r.report = withScannedRows(ss.Context())
	d.mu.Lock()
	d.table(r.id).reads++
	bounds := d.bounds(r.id)
	d.mu.Unlock()
	parts := rows.parts(bounds)
	if r.reversed {
		slices.Reverse(parts)
	}
	for _, part := range parts {
		if err := r.part(g, bt, req, part); err != nil {
			return err
		}
		if req.RowsLimit > 0 && r.returned >= req.RowsLimit {
			break
		}
	}
	return nil
}

// part serves what a request asks for in one tablet: a key, or a range.
func (r *diskRead) part(g *guard, bt btpb.BigtableServer, req *btpb.ReadRowsRequest, from interval) error {
	part := &btpb.RowSet{RowRanges: []*btpb.RowRange{from.wire()}}
	leave, err := r.disks.enter(r.Context(), r.id, from.start, g.rules.profile(req).LowPriority)
	if err != nil {
		return err
	}
	defer leave()
	if d := r.disks; d.Speed > 0 || d.Reach > 0 || len(d.Clean) > 0 {
		if r.sizes, err = sizesOf(g, bt, r.ServerStream, req, part); err != nil {
			return err
		}
	}
	first, last := from.start, from.end
	if r.reversed {
		slices.Reverse(r.sizes)
		first, last = last, first
	}
	r.at = first
	asked := proto.CloneOf(req)
	asked.Rows = part
	if asked.RowsLimit > 0 {
		asked.RowsLimit -= r.returned
	}
	if err := g.scanRows(bt, r, asked); err != nil {
		return err
	}
	if req.RowsLimit > 0 && r.returned >= req.RowsLimit {
		return nil
	}
	return r.passTo(last)
}

// SendMsg pays for everything up to a row, and for the row, before it sends it.
func (r *diskRead) SendMsg(m any) error {
	row, ok := m.(*btpb.ReadRowsResponse)
	if !ok {
		return r.ServerStream.SendMsg(m)
	}
	if key := string(row.LastScannedRowKey); key != "" {
		return r.passTo(r.behind(key)) // which names it
	}
	if len(row.Chunks) > 0 {
		key := string(row.Chunks[0].RowKey)
		if err := r.passTo(r.before(key)); err != nil {
			return err
		}
		if err := r.passRow(key); err != nil {
			return err
		}
		r.returned++
	}
	return r.ServerStream.SendMsg(m)
}

// before is where a read stands that has come to a row, and behind where it has passed over it.
func (r *diskRead) before(key string) string {
	if r.reversed {
		return successor(key)
	}
	return key
}

func (r *diskRead) behind(key string) string {
	if r.reversed {
		return key
	}
	return successor(key)
}

// passed reports whether a key lies on the way to end.
func (r *diskRead) passed(key, end string) bool {
	if r.reversed {
		return key >= end
	}
	return end == "" || key < end
}

// passTo pays for what lies on the way to end, all of which the filter has kept back, and names the
// progress; "" is the end of the table, or the start for a reversed read.
func (r *diskRead) passTo(end string) error {
	for len(r.sizes) > 0 && r.passed(r.sizes[0].key, end) {
		key := r.sizes[0].key
		if err := r.passClean(r.before(key)); err != nil {
			return err
		}
		if err := r.passRow(key); err != nil {
			return err
		}
		if err := r.name(key); err != nil {
			return err
		}
	}
	return r.passClean(end)
}

// passRow pays for a row, unless it is too young to have a size.
func (r *diskRead) passRow(key string) error {
	if len(r.sizes) > 0 && r.sizes[0].key == key {
		size := r.sizes[0].size
		r.sizes = r.sizes[1:]
		if err := r.pay(size, func(int64) error { return nil }); err != nil {
			return err
		}
	}
	r.at = r.behind(key)
	return nil
}

// pay is that of the disks, up to where the request is cut off.
func (r *diskRead) pay(n int64, step func(done int64) error) error {
	within := min(n, r.reach)
	r.reach -= within
	if err := r.disks.pay(r.Context(), r.id, within, step); err != nil || within == n {
		return err
	}
	// Google's client does not repeat it.
	return status.Error(codes.Canceled, "the time of the request has passed")
}

// name tells the client, if it has asked, that nothing comes up to key.
func (r *diskRead) name(key string) error {
	if !r.report {
		return nil
	}
	return r.ServerStream.SendMsg(&btpb.ReadRowsResponse{LastScannedRowKey: []byte(key)})
}

// passClean pays for the clean data on the way to end, and names the progress.
func (r *diskRead) passClean(end string) error {
	for i := range r.disks.Clean {
		c := r.disks.Clean[i]
		if r.reversed {
			c = r.disks.Clean[len(r.disks.Clean)-1-i]
		}
		if c.Table != r.id {
			continue
		}
		if err := r.passCleanOf(c, end); err != nil {
			return err
		}
	}
	if r.reversed || end != "" {
		r.moveTo(end)
	}
	return nil
}

func (r *diskRead) passCleanOf(c Clean, end string) error {
	from, to := c.place(r.at), c.place(end)
	switch {
	case r.reversed && r.at == "":
		from = 1
	case !r.reversed && end == "":
		to = 1
	}
	if to == from || to < from != r.reversed {
		return nil
	}
	total := int64(math.Abs(to-from) * float64(c.Bytes))
	return r.pay(total, func(done int64) error {
		key := c.key(from + (to-from)*float64(done)/float64(total))
		if !r.report || !r.passed(key, end) || !r.moveTo(key) {
			return nil
		}
		return r.name(key)
	})
}

// moveTo notes that everything up to a key is paid for, unless it was before.
func (r *diskRead) moveTo(key string) bool {
	if r.reversed && r.at != "" && key >= r.at || !r.reversed && key <= r.at {
		return false
	}
	r.at = key
	return true
}

// sizesOf reads the rows of a part without the filter.
func sizesOf(g *guard, bt btpb.BigtableServer, ss grpc.ServerStream, req *btpb.ReadRowsRequest, part *btpb.RowSet) ([]rowSize, error) {
	all := &sizes{ServerStream: ss}
	err := g.scanRows(bt, all, &btpb.ReadRowsRequest{TableName: req.TableName, Rows: part})
	return all.rows, err
}

// sizes is a stream that keeps the sizes of what is sent.
type sizes struct {
	grpc.ServerStream
	rows []rowSize
}

// SendMsg implements grpc.ServerStream.
func (s *sizes) SendMsg(m any) error {
	if row, ok := m.(*btpb.ReadRowsResponse); ok && len(row.Chunks) > 0 {
		s.rows = append(s.rows, rowSize{string(row.Chunks[0].RowKey), int64(sizeOf(row))})
	}
	return nil
}

// Slow makes every request that needs the tablet which has key take so much longer there, reads one
// after another; 0 ends that. A part that is split off stays as slow.
func (d *Disks) Slow(table, key string, by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table(table).find(key).slow = by
}

// Unload takes the tablet that has key from its node until load is called: requests that need it
// get the code Unavailable. A part that is split off meanwhile is loaded already.
func (d *Disks) Unload(table, key string) (load func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.table(table).find(key)
	t.unloaded = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		t.unloaded = false
	}
}

// latency is what a request pays for a tablet that it needs.
func (d *Disks) latency(t *tablet) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Latency + t.slow
}
