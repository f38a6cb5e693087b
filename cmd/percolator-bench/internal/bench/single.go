package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gopercolator/percolator/tso"
)

// slice is how long one side is measured before it is the other's turn: whatever else
// the machine does then falls on both.
const slice = 20 * time.Millisecond

// measureSingle compares one caller's Next with an empty call.
func measureSingle(ctx context.Context, at addresses, d time.Duration) (Single, error) {
	client, err := tso.Dial(ctx, at.Oracle)
	if err != nil {
		return Single{}, err
	}
	defer func() { _ = client.Close() }()
	conn, err := grpc.NewClient(at.Empty, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return Single{}, err
	}
	defer func() { _ = conn.Close() }()

	next := func() error { _, err := client.Next(ctx); return err }
	empty := func() error { return conn.Invoke(ctx, emptyMethod, &emptypb.Empty{}, new(emptypb.Empty)) }
	var nexts, empties, ratios []float64
	for begun := time.Now(); time.Since(begun) < 2*d || len(ratios) < 3; {
		n, err := roundTrip(ctx, next)
		if err != nil {
			return Single{}, fmt.Errorf("one caller: %w", err)
		}
		e, err := roundTrip(ctx, empty)
		if err != nil {
			return Single{}, fmt.Errorf("empty calls: %w", err)
		}
		nexts, empties, ratios = append(nexts, n), append(empties, e), append(ratios, n/e)
	}
	return Single{Next: summarize(nexts), Empty: summarize(empties), Ratio: summarize(ratios)}, nil
}

// roundTrip returns the microseconds that one call takes, of those made in a slice.
func roundTrip(ctx context.Context, call func() error) (float64, error) {
	n := 0
	begun := time.Now()
	for ; time.Since(begun) < slice; n++ {
		if err := call(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begun).Nanoseconds()) / 1e3 / float64(n), ctx.Err()
}

func summarize(samples []float64) Summary {
	slices.Sort(samples)
	return Summary{Min: samples[0], Median: samples[len(samples)/2], Max: samples[len(samples)-1]}
}
