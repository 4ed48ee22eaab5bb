"""AWS Bedrock Converse."""
