//! The adapter between [`Mcp`] and rmcp, which speaks the protocol in all its versions.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};

use super::{Caller, Mcp, ToolCall};

/// Members of `_meta` by which a client says what a call is for, and to which of its sessions it belongs.
pub(super) const INTENT_HINT: &str = "pml/intent";
pub(super) const SESSION_HINT: &str = "pml/session";

/// One MCP connection, or one request of a client without sessions.
#[derive(Clone)]
pub(crate) struct McpServer {
    mcp: Mcp,
    /// Who sends requests that no HTTP request came with.
    local: Caller,
}

impl McpServer {
    pub(crate) fn new(mcp: Mcp, local: Caller) -> Self {
        Self { mcp, local }
    }

    /// Who sent a request: the HTTP gateway has put it into the request, with its scopes.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        let parts = context.extensions.get::<http::request::Parts>();
        let caller = parts.and_then(|parts| parts.extensions.get::<Caller>()).unwrap_or(&self.local).clone();
        let agent = context.client_info().map(|client| format!("{} {}", client.name, client.version));
        caller.described(agent, context.meta.get(SESSION_HINT).and_then(|session| session.as_str()))
    }
}

/// What pml says about itself in `initialize` and `server/discover`.
pub(super) fn server_config(mcp: &Mcp) -> ServerConfig {
    let capabilities = ServerCapabilities::builder()
        .enable_tools()
        .enable_tool_list_changed()
        .enable_resources()
        .enable_resources_list_changed()
        .build();
    let about = "Procedural memory for AI agents: finds, predicts and runs the tools of other MCP servers";
    let server = Implementation::new("pml", env!("CARGO_PKG_VERSION")).with_title("pml").with_description(about);
    ServerConfig::new(capabilities).with_server_info(server).with_instructions(mcp.instructions())
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        server_config(&self.mcp)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.mcp.list_tools(request.and_then(|request| request.cursor).as_deref())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context);
        let intent = context.meta.get(INTENT_HINT).and_then(|intent| intent.as_str()).map(str::to_owned);
        let call = ToolCall { name: request.name.into_owned(), arguments: request.arguments.unwrap_or_default(), intent };
        tokio::select! {
            answered = self.mcp.call(&caller, call) => answered.map(CallToolResponse::from),
            () = context.ct.cancelled() => Err(ErrorData::invalid_request("the call was cancelled", None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(self.mcp.list_resources())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(Mcp::list_resource_templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.mcp.read_resource(&request.uri).await.map(ReadResourceResponse::from)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mcp = self.mcp.clone();
        // It ends with the session, whose number is bounded.
        tokio::spawn(async move { mcp.notify_session(context.peer).await });
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().resources_list_changed().build())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = self.mcp.notify_subscription(&subscription) => {}
            () = subscription.cancelled() => {}
        }
        Ok(())
    }
}
