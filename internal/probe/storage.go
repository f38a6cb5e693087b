package probe

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/health"
)

// Bigtable charges for what is deleted until it is compacted away. How long that takes shows only
// over days, so the line "storage" leaves its table to later runs: one writes it and deletes
// everything in it, each later one says what Bigtable still stores of it, and one removes it.
const (
	storageDays  = 8               // after which the table is removed, whatever is left
	storageShare = 0.1             // of what was written, below which it counts as compacted away
	storageMost  = int64(10 << 30) // bytes that are written
)

// storageTable is the name of the table: when everything in it was deleted, and how many bytes that
// was.
var storageTable = regexp.MustCompile(`^percolator_storage_(\d{8}t\d{6})_(\d+)$`)

func storageCost(c *Config) Cost {
	rows := c.StorageBytes / largeRow
	return Cost{Requests: 2*(int(rows/largeRows)+int(rows/largeRows)/10) + 30, Bytes: rows*(largeRow+400) + 20<<10, Tables: int(min(rows, 1))}
}

// storage measures what an earlier run has deleted, or begins.
func (p *probe) storage(ctx context.Context) []health.Finding {
	names, err := p.admin.Tables(ctx)
	if err != nil {
		return stopped(err)
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if m := storageTable.FindStringSubmatch(name); m != nil {
			return p.measureStorage(ctx, name, m[1], m[2])
		}
	}
	if p.StorageBytes < largeRow {
		return health.Unchecked("how long deleted data is stored shows over days: --storage-bytes 67108864 would write and delete 64 MiB in a table that stays, and a run on each of the next %d days says what is left", storageDays)
	}
	bytes := p.StorageBytes / largeRow * largeRow
	name := fmt.Sprintf("percolator_storage_%s_%d", p.started.UTC().Format(stamp), bytes)
	if err := p.fillAndDelete(ctx, name, bytes/largeRow); err != nil {
		_, gone := p.drop(context.WithoutCancel(ctx), name)
		return stopped(errors.Join(err, gone))
	}
	return health.Fine("wrote and deleted %d bytes in %s, which stays: check --live --only storage says each day what is left, and removes it after %d days at most", bytes, name, storageDays)
}

// fillAndDelete makes a table, writes rows into it, and deletes each.
func (p *probe) fillAndDelete(ctx context.Context, name string, rows int64) error {
	conf := bigtable.TableConf{TableID: name, Families: map[string]bigtable.GCPolicy{layout.DataFamily: bigtable.NoGcPolicy()}}
	if err := p.admin.CreateTableFromConf(ctx, &conf); err != nil {
		return err
	}
	value := make([]byte, largeRow)
	for i := range value {
		value[i] = byte(i*i>>3 ^ i) // zeros would compress to nothing
	}
	for _, write := range []func() *store.Mutation{
		func() *store.Mutation { return putting(layout.DataFamily, "c", string(value)) },
		func() *store.Mutation { m := store.NewMutation(1); m.EraseRow(); return m },
	} {
		if err := p.eachLarge(ctx, name, "", rows, write); err != nil {
			return err
		}
	}
	return nil
}

// measureStorage says what Bigtable stores of a table in which everything was deleted.
func (p *probe) measureStorage(ctx context.Context, name, deleted, bytes string) []health.Finding {
	at, err := time.Parse(stamp, deleted)
	written, werr := strconv.ParseInt(bytes, 10, 64)
	if err = errors.Join(err, werr); err != nil {
		return unable(fmt.Errorf("the table %s: %w", name, err))
	}
	var left int64
	if _, err := p.data.Open(name).SampleRowKeys(context.WithValue(ctx, offsetKey{}, &left)); err != nil {
		return stopped(err)
	}
	days := p.started.Sub(at).Hours() / 24
	saw := fmt.Sprintf("of %d bytes deleted %.1f days ago Bigtable reports %d", written, days, left)
	gone := float64(left) <= storageShare*float64(written)
	if !gone && days < storageDays {
		return health.Fine("%s; run it again tomorrow", saw)
	}
	if _, err := p.drop(ctx, name); err != nil {
		return append(health.Fine("%s", saw), failed(p.dropCommand(name), "removing %s: %v", name, err))
	}
	if !gone {
		return health.Fine("%s: deleted data stays longer than %d days, percolator capacity --set deletedDays=%.0f or more; removed %s", saw, storageDays, days, name)
	}
	return health.Fine("%s: percolator capacity --set deletedDays=%.1f; removed %s", saw, days, name)
}

// offsetKey is for a context in which the last offset of SampleRowKeys is wanted, which Google's
// client keeps to itself: about what is stored of the table.
type offsetKey struct{}

// offsets fills in that offset.
func offsets() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		if last, ok := ctx.Value(offsetKey{}).(*int64); ok && err == nil {
			return &sampled{s, last}, nil
		}
		return s, err
	}))
}

type sampled struct {
	grpc.ClientStream
	last *int64
}

// RecvMsg implements grpc.ClientStream.
func (s *sampled) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	if m, ok := msg.(*btpb.SampleRowKeysResponse); ok && err == nil {
		*s.last = m.OffsetBytes
	}
	return err
}
