package bench

import (
	"context"
	"maps"
	"path"
	"sync"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/percolator"
)

// scaleRequests counts the requests of a client by kind and the rows that are returned for them, without those with which it keeps its
// knowledge of the schema and of collection fresh: they come with time, whatever is done. So do those for a collector's lease.
type scaleRequests struct {
	mu   sync.Mutex
	n    map[string]int64
	rows int64
}

func newScaleRequests() *scaleRequests { return &scaleRequests{n: map[string]int64{}} }

// option makes the requests of a client of Bigtable count.
func (r *scaleRequests) option() []option.ClientOption {
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(r.unary)),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(r.stream)),
	}
}

func (r *scaleRequests) unary(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r.see(method, req)
	return invoke(ctx, method, req, resp, conn, opts...)
}

// see counts a request to one of the tables that are measured.
func (r *scaleRequests) see(method string, req any) (counts bool) {
	to, ok := req.(interface{ GetTableName() string }) // else that a connection is warm
	if !ok || path.Base(to.GetTableName()) == "percolator_meta" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[path.Base(method)]++
	return true
}

func (r *scaleRequests) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &scaleStream{ClientStream: s, method: method, requests: r}, nil
}

// scaleStream is a request whose answer is a stream.
type scaleStream struct {
	grpc.ClientStream
	method   string
	requests *scaleRequests
	counts   bool
}

// SendMsg implements grpc.ClientStream.
func (s *scaleStream) SendMsg(req any) error {
	s.counts = s.requests.see(s.method, req)
	return s.ClientStream.SendMsg(req)
}

// RecvMsg implements grpc.ClientStream.
func (s *scaleStream) RecvMsg(to any) error {
	err := s.ClientStream.RecvMsg(to)
	if resp, ok := to.(*btpb.ReadRowsResponse); ok && err == nil && s.counts {
		s.requests.mu.Lock()
		defer s.requests.mu.Unlock()
		for _, c := range resp.Chunks {
			if c.GetCommitRow() {
				s.requests.rows++
			}
		}
	}
	return err
}

// scaleCost is what a client has sent, and what its requests to read returned.
type scaleCost struct {
	requests map[string]int64
	rowsRead int64
}

func newScaleCost() scaleCost { return scaleCost{requests: map[string]int64{}} }

// now is the cost so far, with what the client has asked the oracle.
func (r *scaleRequests) now(c *percolator.Client) scaleCost {
	oracle := c.Stats().Requests["Oracle"]
	r.mu.Lock()
	defer r.mu.Unlock()
	out := scaleCost{requests: maps.Clone(r.n), rowsRead: r.rows}
	out.requests["Oracle"] = oracle
	return out
}

// add adds what came between two moments.
func (c *scaleCost) add(before, after scaleCost) {
	for kind, n := range after.requests {
		c.requests[kind] += n - before.requests[kind]
	}
	c.rowsRead += after.rowsRead - before.rowsRead
}

// each is the requests of one of n operations, by kind.
func (c *scaleCost) each(n int) map[string]float64 {
	out := map[string]float64{}
	for kind, sum := range c.requests {
		if sum > 0 {
			out[kind] = float64(sum) / float64(n)
		}
	}
	return out
}
