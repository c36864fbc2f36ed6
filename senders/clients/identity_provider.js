// An identity provider for tests: `node identity_provider.js REDIRECT_URL`. Prints its issuer, then serves until it is killed.
// It logs in the user that `POST /user/NAME` has named, without asking; the password dialog is not what is tested.
const http = require("node:http");

async function main([redirectUrl]) {
  const { default: Provider } = await import(require.resolve("oidc-provider"));
  let user = "ada";
  const server = http.createServer();
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "bucksaw",
        client_secret: "a secret: with signs & more",
        redirect_uris: [redirectUrl],
        response_types: ["code"],
        grant_types: ["authorization_code"],
        token_endpoint_auth_method: "client_secret_basic",
      },
    ],
    claims: { openid: ["sub"], email: ["email"], groups: ["groups"] },
    scopes: ["openid", "email", "groups"],
    // Claims are in the ID token, as with most providers.
    conformIdTokenClaims: false,
    cookies: { keys: ["a key for tests"] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.org`, groups: id === "ada" ? ["everybody", "sre"] : ["everybody"] }),
    }),
    loadExistingGrant: async (context) => {
      const grant = new context.oidc.provider.Grant({
        clientId: context.oidc.client.clientId,
        accountId: context.oidc.session.accountId,
      });
      grant.addOIDCScope("openid email groups");
      await grant.save();
      return grant;
    },
  });
  const serve = provider.callback();
  server.on("request", async (request, response) => {
    const named = request.url.match(/^\/user\/(\w+)$/);
    if (named) {
      user = named[1];
      response.end();
    } else if (request.url.startsWith("/interaction/")) {
      await provider.interactionFinished(request, response, { login: { accountId: user } });
    } else {
      serve(request, response);
    }
  });
  console.log(issuer);
}

main(process.argv.slice(2));
