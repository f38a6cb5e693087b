package emulator

import (
	"context"
	"encoding/base64"
	"errors"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// pageLimits bound what one turn at a table's lock reads and buffers. The row that reaches a limit
// still belongs to the page: rows are never divided.
type pageLimits struct {
	rows  int // rows looked at, whether the filter lets them through or not
	bytes int // of the buffered answer
}

var defaultPageLimits = pageLimits{rows: 1024, bytes: 8 << 20}

// The emulator gathers and sorts all rows of the requested ranges before it looks at the first.
// Reading a large range page by page with a moving start would therefore take quadratic time. So a
// range that fills more than fullPages pages is cut at row keys about splitRows apart, which the
// emulator's own sampling (one key in a hundred) yields; they are kept for the next scan.
const (
	fullPages     = 2
	samplePerRows = 100
	splitRows     = 1000
)

// readRows answers req in pages: each is read in one turn at the table's lock and sent without it.
// A row is as of one instant; different rows may be as of different ones, which Bigtable does not
// promise otherwise either.
func (g *guard) readRows(bt btpb.BigtableServer, ss grpc.ServerStream, req *btpb.ReadRowsRequest) error {
	t, done := g.tables.use(req.TableName)
	err := checkFamiliesRead(g.familiesOf(ss.Context(), bt, req.TableName, t), req)
	if done(); err != nil {
		return err
	}
	if g.disks != nil {
		return g.disks.readRows(g, bt, ss, req)
	}
	return g.scanRows(bt, ss, req)
}

func (g *guard) scanRows(bt btpb.BigtableServer, ss grpc.ServerStream, req *btpb.ReadRowsRequest) error {
	t, done := g.tables.use(req.TableName)
	defer done()
	s := &scan{guard: g, bt: bt, out: ss, req: req, table: t}
	s.ctx, s.wantScanned = withScannedRows(ss.Context())

	rows, ok := newRowSet(req.Rows)
	if !ok || req.RequestStatsView == btpb.ReadRowsRequest_REQUEST_STATS_FULL {
		s.ctx = ss.Context()
		return s.whole()
	}
	s.rows = rows
	req.Filter, s.columns, _ = lateColumns(req.Filter)
	return s.run()
}

// scan is one ReadRows request being answered.
type scan struct {
	guard       *guard
	bt          btpb.BigtableServer
	out         grpc.ServerStream
	ctx         context.Context
	wantScanned bool // the client asked to hear of rows that the filter kept back
	req         *btpb.ReadRowsRequest
	table       *table
	rows        rowSet
	columns     columnRanges // select the cells of what req selects; nil: all
}

// whole reads everything in one turn at the lock: for requests whose answer is not the sum of its
// pages.
func (s *scan) whole() error {
	p := &page{buffer: buffer[btpb.ReadRowsResponse]{ServerStream: s.out}, ctx: s.ctx, rules: s.guard.rules.limits, asIs: true}
	err := s.read(p)
	if sendErr := p.send(s.wantScanned); sendErr != nil {
		return sendErr
	}
	return err
}

// run reads what is left window by window, cutting it anew when a window turns out to be large.
func (s *scan) run() error {
	rest, more := everything, true
	for more {
		windows := s.rows.cut(rest, s.table.knownSplits(), splitRows)
		var err error
		if rest, more, err = s.windows(windows); err != nil {
			return err
		}
	}
	return nil
}

// windows reads the windows in the order of the request. When one fills too many pages it finds new
// splits and returns what is left.
func (s *scan) windows(windows []interval) (rest interval, more bool, err error) {
	for i := range windows {
		w := windows[i]
		if s.req.Reversed {
			w = windows[len(windows)-1-i]
		}
		for full := 0; ; {
			part, ok := s.rows.clip(w)
			if !ok {
				break
			}
			s.req.Rows = part
			p := &page{buffer: buffer[btpb.ReadRowsResponse]{ServerStream: s.out}, ctx: s.ctx, rules: s.guard.rules.limits, limits: s.guard.pages, columns: s.columns}
			readErr := s.read(p)
			if err := p.send(s.wantScanned); err != nil {
				return rest, false, err
			}
			if s.req.RowsLimit > 0 {
				if s.req.RowsLimit -= int64(p.returned); s.req.RowsLimit <= 0 {
					return rest, false, nil
				}
			}
			if readErr == nil {
				break
			}
			if !errors.Is(readErr, errPageFull) {
				return rest, false, readErr
			}
			w = s.after(w, p.last)
			if p.examined >= s.guard.pages.rows {
				full++
			}
			if full == fullPages && len(s.rows.ranges) > 0 {
				if err := s.findSplits(); err != nil {
					return rest, false, err
				}
				return s.remaining(windows, w), true, nil
			}
		}
	}
	return rest, false, nil
}

// after returns what is left of w once the row with the given key was read.
func (s *scan) after(w interval, key string) interval {
	if s.req.Reversed {
		w.end = key
	} else {
		w.start = successor(key)
	}
	return w
}

// remaining returns everything that is left when w is what is left of one of the windows.
func (s *scan) remaining(windows []interval, w interval) interval {
	if s.req.Reversed {
		return interval{windows[0].start, w.end}
	}
	return interval{w.start, windows[len(windows)-1].end}
}

// read has the emulator write the rows of s.req to p, under the table's lock.
func (s *scan) read(p *page) error {
	s.table.RLock()
	defer s.table.RUnlock()
	if s.guard.holding != nil {
		s.guard.holding(s.req)
	}
	// The page counts rows itself, because it keeps back some that the emulator counts.
	if s.columns != nil {
		p.wanted = s.req.RowsLimit
		defer func() { s.req.RowsLimit = p.wanted }()
		s.req.RowsLimit = 0
	}
	return s.bt.ReadRows(s.req, p)
}

func (s *scan) findSplits() error {
	samples := &buffer[btpb.SampleRowKeysResponse]{ServerStream: s.out}
	if err := s.bt.SampleRowKeys(&btpb.SampleRowKeysRequest{TableName: s.req.TableName}, samples); err != nil {
		return err
	}
	var splits []string
	for i, m := range samples.messages {
		// The last key, for the end of the table, is empty.
		if i%(splitRows/samplePerRows) == 0 && len(m.RowKey) > 0 {
			splits = append(splits, string(m.RowKey))
		}
	}
	s.table.splits.Store(&splits)
	return nil
}

// errPageFull makes the emulator stop in the middle of a request.
var errPageFull = errors.New("page full")

// page receives the rows of one turn at the lock.
type page struct {
	buffer[btpb.ReadRowsResponse]

	ctx    context.Context
	rules  limits
	limits pageLimits
	asIs   bool // keep every message as it comes

	columns columnRanges // as in scan
	wanted  int64        // rows; 0: all

	scanned  *btpb.ReadRowsResponse // newest report of a filtered row, if no row followed it
	last     string                 // key of the last row looked at
	examined int
	returned int
	bytes    int
}

func (p *page) Context() context.Context { return p.ctx }

// Send takes one row, or the report that a row was kept back by the filter.
func (p *page) Send(m *btpb.ReadRowsResponse) error {
	if p.columns != nil {
		m = p.columns.of(m)
	}
	size := sizeOf(m)
	if len(m.Chunks) > 0 {
		if err := p.rules.checkAnswer(m.Chunks[0].RowKey, size); err != nil {
			return err
		}
	}
	if p.asIs {
		p.messages = append(p.messages, m)
		return nil
	}
	if err := p.ctx.Err(); err != nil {
		return contextStatus(err)
	}
	p.examined++
	switch {
	case len(m.LastScannedRowKey) > 0:
		p.last, p.scanned = string(m.LastScannedRowKey), m
	case len(m.Chunks) > 0:
		p.last, p.scanned = string(m.Chunks[0].RowKey), nil
		p.returned++
		p.messages = append(p.messages, m)
		p.bytes += size
	default:
		// A row of which the filter left no cell: it counts for the limit, and it cannot end the
		// page as it has no key.
		p.returned++
		p.messages = append(p.messages, m)
		return nil
	}
	if p.wanted > 0 && int64(p.returned) >= p.wanted || p.examined >= p.limits.rows || p.bytes >= p.limits.bytes {
		return errPageFull
	}
	return nil
}

// sizeOf returns about how many bytes a row takes.
func sizeOf(m *btpb.ReadRowsResponse) (size int) {
	for _, c := range m.Chunks {
		size += len(c.RowKey) + len(c.Qualifier.GetValue()) + len(c.Value) + chunkOverhead
	}
	return size
}

// chunkOverhead is about what a cell takes besides its key, column and value.
const chunkOverhead = 64

// send passes the page on to the client.
func (p *page) send(wantScanned bool) error {
	if p.scanned != nil && wantScanned {
		p.messages = append(p.messages, p.scanned)
	}
	return p.flush()
}

// featuresHeader carries the client's btpb.FeatureFlags.
const featuresHeader = "bigtable-features"

// withScannedRows returns a context in which the client asks to hear of every row that the filter
// keeps back, so that these count for the limits of a page too, and whether it asked for that
// itself.
func withScannedRows(ctx context.Context) (_ context.Context, asked bool) {
	md, _ := metadata.FromIncomingContext(ctx)
	flags := new(btpb.FeatureFlags)
	if v := md.Get(featuresHeader); len(v) > 0 {
		if b, err := base64.URLEncoding.DecodeString(v[0]); err != nil || proto.Unmarshal(b, flags) != nil {
			flags.Reset() // as the emulator takes it
		}
	}
	if flags.LastScannedRowResponses {
		return ctx, true
	}
	flags.LastScannedRowResponses = true
	b, err := proto.Marshal(flags)
	if err != nil {
		return ctx, false
	}
	md = metadata.Join(md) // a copy
	md.Set(featuresHeader, base64.URLEncoding.EncodeToString(b))
	return metadata.NewIncomingContext(ctx, md), false
}
