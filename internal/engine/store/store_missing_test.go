package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// Bigtable answers NotFound for whatever a request names. The messages of the service are from
// public reports and its clients' tests, not from a run.
func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := New(context.Background(), nil, &telemetry.Counters{})
	defer s.Stop()
	for message, want := range map[string]struct {
		code     codes.Code
		sentinel error
		remedy   string
	}{
		`table "projects/p/instances/i/tables/t" not found`:                                               {codes.NotFound, model.ErrSchemaMismatch, "schema apply"},
		`Table not found: projects/p/instances/i/tables/t`:                                                {codes.NotFound, model.ErrSchemaMismatch, "creates it"},
		`Error while reading table 'projects/p/instances/i/tables/t' : Requested column family not found`: {codes.NotFound, model.ErrSchemaMismatch, "adds it"},
		`unknown family "write"`:       {codes.Unknown, model.ErrSchemaMismatch, "adds it"},
		`App profile "gone" not found`: {codes.NotFound, model.ErrInvalidArgument, "app profile"},
		`Error while reading table 'projects/p/instances/i/tables/t' : App profile 'gone' not found in instance`: {codes.NotFound, model.ErrInvalidArgument, "app profile"},
		`Failed to read: projects/p/instances/i`:    {codes.NotFound, model.ErrInvalidArgument, "instance"},
		`Instance projects/p/instances/i not found`: {codes.NotFound, model.ErrInvalidArgument, "instance"},
	} {
		err := s.Err(t.Context(), "t", status.Error(want.code, message))
		if !errors.Is(err, want.sentinel) || !strings.Contains(err.Error(), want.remedy) || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v, want %v and %q", message, err, want.sentinel, want.remedy)
		}
		for _, other := range []error{model.ErrSchemaMismatch, model.ErrInvalidArgument} {
			if other != want.sentinel && errors.Is(err, other) {
				t.Errorf("%s: %v", message, err)
			}
		}
	}
	if err := s.Err(t.Context(), "t", status.Error(codes.Unavailable, "the table is moving")); errors.Is(err, model.ErrSchemaMismatch) || status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
}
