// The reference of the API. Requests go to this server, below the path that a proxy adds.
const base = document.body.dataset.base;
const contract = await (await fetch(`${base}/openapi.json`)).json();
contract.servers = [{ url: base || "/" }];
window.SwaggerUIBundle({
  spec: contract,
  domNode: document.getElementById("reference"),
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  validatorUrl: null, // it would ask another server
});
