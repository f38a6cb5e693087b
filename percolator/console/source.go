package console

import (
	"context"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// source is where the poll learns what it shows. Every method that takes a context may be slow or
// fail without harm to the others.
type source interface {
	own() model.Report // of this process; never slow
	Reports(ctx context.Context) ([]model.Report, error)
	Workers(ctx context.Context) (model.Workers, error) // changes nothing
	storage(ctx context.Context) (storage, error)
	pending(ctx context.Context) (pending, error)
	letters(ctx context.Context) ([]exportqueue.DeadLetterCount, error)
	locks(ctx context.Context) (lockList, error)
	journal(ctx context.Context) (journalState, error)
	oracle(ctx context.Context) ([]oracleServer, error)
}

// clientSource asks the instance and the oracle.
type clientSource struct {
	*admin.Admin

	c   *percolator.Client
	cfg Config
}

func newClientSource(c *percolator.Client, cfg Config) clientSource {
	return clientSource{Admin: admin.New(c), c: c, cfg: cfg}
}

// own is what this process would report, read now.
func (s clientSource) own() model.Report {
	if s.cfg.Worker != nil {
		return s.cfg.Worker.Report()
	}
	return membership.OwnReport(s.c.Engine(), s.c.Engine().ID, model.WorkerReport{})
}

func (s clientSource) storage(ctx context.Context) (storage, error) {
	done, err := s.Collection(ctx)
	if err != nil {
		return storage{}, err
	}
	holds, err := s.Holds(ctx)
	m, _ := s.c.Engine().Meta.Snapshot() // as Holds has read it
	return storage{done, holds, m.Safepoint, m.Watermark, s.c.Engine().Config.Retention}, err
}

// oracle asks all servers at once. A server that does not answer is a part of the answer.
func (s clientSource) oracle(ctx context.Context) ([]oracleServer, error) {
	servers := make([]oracleServer, len(s.cfg.OracleAddresses))
	var all sync.WaitGroup
	for i, address := range s.cfg.OracleAddresses {
		all.Go(func() { servers[i] = askOracle(ctx, address, s.cfg.DialOptions) })
	}
	all.Wait()
	return servers, nil
}

func askOracle(ctx context.Context, address string, opts []tso.DialOption) oracleServer {
	resp, err := tso.AskStatus(ctx, address, opts...)
	if err != nil {
		return oracleServer{OracleServer: health.OracleServer{Address: address, Failed: err}}
	}
	return oracleServer{
		OracleServer: health.OracleServer{Address: address, Leading: resp.GetLeading(), Ready: resp.GetReady(), Reason: resp.GetReason(),
			Silence: time.Duration(resp.GetStoreAnsweredMs()) * time.Millisecond},
		Leader: resp.GetLeader(), Server: resp.GetServer(), Version: resp.GetVersion(), Epoch: resp.GetEpoch(), Record: resp.GetRecord(),
		HighWater: tso.Timestamp(resp.GetHighWater()), Served: resp.GetServed(),
	}
}
