package probe

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// stored has the stand-in report that it stores so many bytes of a table: emulators delete at once.
type stored struct{ bytes int64 }

func (s *stored) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, cc, method, opts...)
		return &reported{stream, s}, err
	}))
}

type reported struct {
	grpc.ClientStream
	by *stored
}

func (r *reported) RecvMsg(msg any) error {
	err := r.ClientStream.RecvMsg(msg)
	if m, ok := msg.(*btpb.SampleRowKeysResponse); ok && err == nil {
		m.OffsetBytes = r.by.bytes
	}
	return err
}

// A run writes and deletes, those of the next days say what is left, and the table goes when it is
// little, or after eight days.
func TestStorageIsMeasuredOverDays(t *testing.T) {
	t.Parallel()
	const written = 3 * largeRow
	for name, c := range map[string]struct {
		days []int   // of the runs after the first
		left []int64 // that the stand-in then stores
		says string  // the last run
	}{
		"gone after two days":  {[]int{1, 2}, []int64{written, written / 100}, "--set deletedDays=2.0; removed"},
		"there after two days": {[]int{1, 2}, []int64{written, written / 2}, "run it again tomorrow"},
		"there after a week":   {[]int{3, 8}, []int64{written, written}, "stays longer than 8 days"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, day, of := newSite(t), 0, new(stored)
			began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			s.now, s.Lines = func() time.Time { return began.AddDate(0, 0, day) }, []string{"storage"}
			s.between = []option.ClientOption{of.option()}
			server := s.start(t)
			run := func() string {
				levels, r := s.levels(t)
				if levels["storage"] != health.OK {
					t.Fatalf("day %d: %+v", day, r.Results)
				}
				return r.Results[0].Findings[0].Saw
			}
			s.StorageBytes = written
			if saw := run(); !strings.Contains(saw, "wrote and deleted 196608 bytes") {
				t.Error(saw)
			}
			s.StorageBytes = 0
			saw := ""
			for i := range c.days {
				if !storageThere(t, server) {
					t.Fatalf("the table is gone before day %d", c.days[i])
				}
				day, of.bytes = c.days[i], c.left[i]
				saw = run()
			}
			if !strings.Contains(saw, c.says) || storageThere(t, server) != strings.Contains(c.says, "tomorrow") {
				t.Errorf("on the last day: %s; is the table there: %v", saw, storageThere(t, server))
			}
		})
	}
}

func storageThere(t *testing.T, server *emulator.Server) bool {
	t.Helper()
	return slices.ContainsFunc(tablesOf(t, server), storageTable.MatchString)
}
