package meta

import (
	"context"
	"encoding/json"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
)

// columnTiming holds the Timing that the first schema of the instance gets, where it leaves that
// open. Clients go by the stored schema alone.
const columnTiming = "timing"

// ProposeTiming stores the Timing that the first schema of an instance gets, where it leaves that
// open. A schema that is stored already keeps its own. The instance needs percolator_meta.
func ProposeTiming(ctx context.Context, project, instance string, t model.Timing, opts ...option.ClientOption) error {
	if err := retry.CheckContext(ctx); err != nil {
		return err
	}
	if err := catalog.CheckTiming(t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, store.ConnectTimeout)
	defer cancel()
	bt, err := store.Connect(ctx, project, instance, "", opts)
	if err != nil {
		return err
	}
	defer bt.Close()
	s := store.New(context.WithoutCancel(ctx), bt, &telemetry.Counters{})
	known, err := Read(ctx, s)
	if err != nil || known.Timing == t {
		return err
	}
	mut := store.NewMutation(1)
	mut.Put(layout.MetaFamily, columnTiming, store.MetaTimestamp, layout.JSON(t))
	return s.Mutate(ctx, model.MetaTable, RowKey, mut)
}

func decodeTiming(b []byte) (t model.Timing, err error) {
	if err = json.Unmarshal(b, &t); err == nil {
		err = catalog.CheckStoredTiming(t)
	}
	return t, err
}
