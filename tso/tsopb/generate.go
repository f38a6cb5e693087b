// Package tsopb holds the protocol buffers and the gRPC service that the
// timestamp oracle's servers and clients speak. Programs use package tso.
package tsopb

//go:generate protoc -I ../.. --go_out=../.. --go_opt=paths=source_relative --go-grpc_out=../.. --go-grpc_opt=paths=source_relative tso/tsopb/oracle.proto tso/tsopb/sessions.proto tso/tsopb/rowlocks.proto tso/tsopb/hints.proto tso/tsopb/status.proto
