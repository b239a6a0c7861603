// Package api holds what is generated from the contract, openapi.yaml: types,
// router, strict server and the contract itself. Only internal/httpapi imports
// it; clients use package client below.
package api

//go:generate go tool oapi-codegen -config server.yaml ../openapi.yaml
//go:generate go tool oapi-codegen -config client.yaml ../openapi.yaml
