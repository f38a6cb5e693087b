// Package tsopb holds the protocol buffers and the gRPC services that the timestamp oracle's
// servers and clients speak. Programs use package tso.
package tsopb

//go:generate -command pb protoc -I ../.. --go_opt=paths=source_relative --go_out=../..
//go:generate -command rpc protoc -I ../.. --go-grpc_opt=paths=source_relative --go-grpc_out=../..
//go:generate pb tso/tsopb/oracle.proto tso/tsopb/sessions.proto tso/tsopb/rowlocks.proto
//go:generate pb tso/tsopb/hints.proto tso/tsopb/status.proto
//go:generate rpc tso/tsopb/oracle.proto tso/tsopb/sessions.proto tso/tsopb/rowlocks.proto
//go:generate rpc tso/tsopb/hints.proto tso/tsopb/status.proto
